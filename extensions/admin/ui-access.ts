import { randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Clock } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { ChangedBy } from '../../src/tenancy/contract.ts';
import type { UiSession, UiSessionStore } from '../../src/tenancy/ui-sessions.ts';
import type { AdminAccess } from './access.ts';
import { ApiError } from './errors.ts';
import type { UiCookie } from './ui-cookie.ts';
import type { UiSecrets } from './ui-secrets.ts';
import { hashSecret } from './ui-secrets.ts';

/** The sessions of the web UI. */
export type UiAccess = {
  /** The session of a request's cookie; undefined without a cookie. Throws an `ApiError` (401, 403, 429). */
  sessionOf(request: UiRequest): Promise<UiSession | undefined>;
  /** Calls back when the session of a long answer has ended, at most `WATCH_MS` late. The returned function ends the watch. */
  watch(request: UiRequest, ended: () => void): () => void;
  /** Creates a session and ends the one of the request's cookie. Resolves with the `Set-Cookie`. */
  signIn(credential: UiCredential, request: UiRequest): Promise<string>;
  /** Ends a session. Resolves with false if it does not exist. */
  end(id: string, by: ChangedBy): Promise<boolean>;
  list(): Promise<UiSession[]>;
  makeCode(by?: ChangedBy): Promise<{ readonly code: string; readonly expiresAt: number }>;
  /** The `Set-Cookie`s that remove the cookie. */
  removedCookie(): string[];
};

export type UiRequest = {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly address: string;
};

type UiCredential = { readonly code: string } | { readonly token: string };

export type UiAccessParts = {
  readonly sessions: UiSessionStore;
  readonly access: Pick<AdminAccess, 'checkToken' | 'countFailure'>;
  readonly secrets: UiSecrets;
  readonly cookie: UiCookie;
  readonly clock: Clock;
};

/** A session ends this long after its last use. */
const SESSION_MS = 12 * 3_600_000;
/** A use is recorded when the recorded one is this old. */
const USE_MS = 60_000;
/** How often the session of an answer in progress, such as a stream of traces, is looked up. */
const WATCH_MS = 15_000;
const CODE_MS = 10 * 60_000;
/** The session used longest ago, or the oldest code, leaves. */
const MAX_SESSIONS = 1000;
const MAX_CODES = 100;
const MAX_USER_AGENT = 200;

/** The name of a session in the audit log. */
export function uiActor(id: string): string {
  return `ui-session:${id}`;
}

export function uiAccess({ sessions, access, secrets, cookie, clock }: UiAccessParts): UiAccess {
  async function find(id: string): Promise<UiSession | undefined> {
    const [hash, now] = [hashSecret(id), clock.now()];
    const session = await sessions.find(hash, now);
    if (session === undefined || now - session.lastUsedAt < USE_MS) return session;
    const used = { ...session, lastUsedAt: now, expiresAt: now + SESSION_MS };
    try {
      await sessions.use(hash, used.lastUsedAt, used.expiresAt);
    } catch (error) {
      if (!(error instanceof RetryableError)) throw error;
      // A store that takes no writes, such as one on a full disk, is still read. The session is not prolonged.
      return session;
    }
    return used;
  }

  function checkCredential(credential: UiCredential, address: string): void {
    if ('token' in credential) {
      access.checkToken(credential.token, address);
    } else if (!secrets.isOwn('code', credential.code)) {
      access.countFailure(address);
      throw notACode();
    }
  }

  return {
    async sessionOf({ method, headers, address }) {
      const id = cookie.read(headers);
      if (id === undefined) return undefined;
      refuseForeignPage(method, headers);
      const isOwn = secrets.isOwn('session', id);
      if (!isOwn) access.countFailure(address);
      const session = isOwn ? await find(id) : undefined;
      if (session !== undefined) return session;
      throw new ApiError('unauthorized', 'The session has ended. Sign in again.', {
        setCookie: cookie.remove(),
      });
    },
    watch({ headers }, ended) {
      const id = cookie.read(headers) ?? '';
      let isOver = false;
      let cancel = clock.after(WATCH_MS, () => void look());
      async function look(): Promise<void> {
        // While the store is away, the session is as it was.
        const isThere = await sessions.find(hashSecret(id), clock.now()).then(
          (session) => session !== undefined,
          () => true,
        );
        if (isOver) return;
        if (isThere) cancel = clock.after(WATCH_MS, () => void look());
        else ended();
      }
      return () => {
        isOver = true;
        cancel();
      };
    },
    async signIn(credential, { headers, address }) {
      refuseForeignFetch(headers);
      checkCredential(credential, address);
      const [id, now] = [secrets.make('session'), clock.now()];
      const former = cookie.read(headers);
      const session = {
        ...{ id: randomBytes(6).toString('hex'), hash: hashSecret(id), binding: secrets.binding },
        signedInWith: 'token' in credential ? ('token' as const) : ('code' as const),
        ...{ createdAt: now, lastUsedAt: now, expiresAt: now + SESSION_MS, address },
        userAgent: headers['user-agent']?.slice(0, MAX_USER_AGENT).toWellFormed() ?? null,
      };
      const request = {
        most: MAX_SESSIONS,
        ...('code' in credential ? { code: hashSecret(credential.code) } : {}),
        ...(former === undefined ? {} : { replaces: hashSecret(former) }),
      };
      const by = { actor: uiActor(session.id), address };
      if (!(await sessions.open(session, request, by))) throw notACode();
      return cookie.write(id, headers);
    },
    end: (id, by) => sessions.end(id, secrets.binding, { ...by, at: clock.now() }),
    list: () => sessions.list(secrets.binding, clock.now()),
    async makeCode(by) {
      const [code, now] = [secrets.make('code'), clock.now()];
      const expiresAt = now + CODE_MS;
      await sessions.addCode({ hash: hashSecret(code), expiresAt }, { now, most: MAX_CODES }, by);
      return { code, expiresAt };
    },
    removedCookie: () => cookie.remove(),
  };
}

function notACode(): ApiError {
  const message = 'The code is wrong, used or older than 10 minutes. Make another one: tracectl ui';
  return new ApiError('unauthorized', message);
}

/**
 * A browser adds the cookie to requests of other pages too: of the same host on another port, and forms of other sites
 * before they are refused for their Origin. A form cannot send the header, and a script of another origin may not.
 */
function refuseForeignPage(method: string, headers: IncomingHttpHeaders): void {
  refuseForeignFetch(headers);
  if (method === 'GET' || method === 'HEAD') return;
  // server.ts compares an Origin with the Host.
  if (headers['x-tracectl-ui'] === '1' && headers.origin !== undefined) return;
  const message = 'A change by session needs the header x-tracectl-ui: 1 and the Origin header.';
  throw new ApiError('foreign_site', message);
}

function refuseForeignFetch({ 'sec-fetch-site': site }: IncomingHttpHeaders): void {
  if (site === undefined || site === 'same-origin' || site === 'none') return;
  throw new ApiError('foreign_site', 'The request comes from a page of another origin.');
}
