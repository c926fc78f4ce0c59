import type { DatabaseSync } from 'node:sqlite';

/**
 * Operations are what the main thread may ask of a database thread, by name. A module of operations is
 * named by its URL, because functions cannot be sent to a thread; it exports a function `operations`.
 */
export type OperationModule = {
  operations(db: DatabaseSync, access: Access, options: OperationOptions): Operations;
};

/** A writing thread owns the one connection that may write; reading threads have one each of their own. */
export type Access = 'write' | 'read';

/** Plain values only: they are cloned into the thread. */
export type OperationOptions = Readonly<Record<string, string | number | boolean>>;

export type Operations = {
  /**
   * What may be asked. In a writing thread a call runs inside the group's transaction, and a thrown error
   * undoes the call; so a call keeps nothing in memory that a rollback would make wrong.
   */
  readonly calls: Readonly<Record<string, Operation>>;
  /** Names of calls that need room: on a full disk they fail, while the others may use the reserve. */
  readonly growing?: readonly string[];
};

/** Arguments and results are plain values and bytes: they are cloned between threads. */
// biome-ignore lint/suspicious/noExplicitAny: each operation names its own parameter types
export type Operation = (...args: any[]) => unknown;

/** One call as it is sent: the name, then its arguments. */
export type Call = readonly [name: string, ...args: unknown[]];

/** Where a module of operations is found, and what its `operations` is given. */
export type OperationSource = { readonly url: string; readonly options: OperationOptions };

export type ThreadData = {
  readonly file: string;
  readonly access: Access;
  readonly modules: readonly OperationSource[];
  /** The file that is given up when the disk is full; writing threads only. */
  readonly reserve: string | undefined;
  /** Upper bound of the file's size in pages, for tests of a full disk. */
  readonly maxPages: number | undefined;
};

/** Why a call failed. `errcode` is SQLite's extended result code; undefined for any other error. */
export type Failure = { readonly message: string; readonly errcode: number | undefined };

/** What a thread answers. A group's results stand in the order of its calls. */
export type ThreadMessage =
  | { readonly type: 'ready'; readonly corrupt: string | undefined }
  | { readonly type: 'unusable'; readonly failure: Failure }
  | {
      readonly type: 'done';
      readonly results: readonly unknown[];
      /** Set when a call failed: undefined where it did not. */
      readonly failures: readonly (Failure | undefined)[] | undefined;
      /** The reserve was given up during this group. */
      readonly reserveUsed: boolean;
    }
  | { readonly type: 'closed' };
