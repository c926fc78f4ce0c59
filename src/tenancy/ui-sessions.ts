import type { ChangedBy } from './contract.ts';

/**
 * Sessions of the web UI and the one-time codes that open them. The extension `admin` makes the secrets; a store keeps
 * their SHA-256, so that every replica finds them. test/contract/ui-sessions.ts holds both stores to this contract.
 */
export type UiSessionStore = {
  /** Keeps a one-time code, and removes expired ones and the oldest ones above `most`. */
  addCode(code: UiCode, limits: { now: number; most: number }, by?: ChangedBy): Promise<void>;
  /**
   * Creates a session. In the same transaction it consumes `code` and ends the session `replaces`, both named by their
   * hash, and removes expired sessions and those above `most` that were used longest ago. Resolves with false, and changes
   * nothing, if the code is not there or expired: of two concurrent calls with one code, one gets true.
   */
  open(session: NewUiSession, request: UiSignIn, by: ChangedBy): Promise<boolean>;
  /** Undefined if the session has ended or expired. */
  find(hash: Uint8Array, now: number): Promise<UiSession | undefined>;
  /** Records a use. An earlier time than the recorded one changes nothing. */
  use(hash: Uint8Array, lastUsedAt: number, expiresAt: number): Promise<void>;
  /** Sessions with the binding that have not expired, the one used last first. */
  list(binding: Uint8Array, now: number): Promise<UiSession[]>;
  /** Ends a session by its id. Resolves with false if none with the binding has it. */
  end(id: string, binding: Uint8Array, by: ChangedBy & { at: number }): Promise<boolean>;
};

export type UiSession = {
  /** Public: names the session in lists and in the audit log. */
  readonly id: string;
  readonly signedInWith: 'code' | 'token';
  /** Milliseconds since the epoch, as the other times. */
  readonly createdAt: number;
  readonly lastUsedAt: number;
  /** From then on the session does not exist. */
  readonly expiresAt: number;
  /** Of the client that signed in. */
  readonly address: string | null;
  readonly userAgent: string | null;
};

export type NewUiSession = UiSession & {
  readonly hash: Uint8Array;
  /** Names the admin token that the session depends on, without revealing it. */
  readonly binding: Uint8Array;
};

export type UiCode = { readonly hash: Uint8Array; readonly expiresAt: number };

export type UiSignIn = {
  readonly code?: Uint8Array | undefined;
  readonly replaces?: Uint8Array | undefined;
  readonly most: number;
};
