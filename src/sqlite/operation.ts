import type { DatabaseSync } from 'node:sqlite';
import type { FileMigration, MigratedFile } from './migrate.ts';

/**
 * An operation is a function in a database thread that the main thread calls by name. The type of a table of
 * operations is also the type of the calls: `Database.write` and `Database.read` take the parameters and resolve
 * with the result that the operation of the name has. Both are cloned between threads: plain values and bytes.
 */
export type OperationTable = Readonly<Record<string, (...args: never[]) => unknown>>;

export type Operations = {
  /**
   * Run in the writing thread, inside the transaction of their group. A thrown error rolls the call back, so an
   * operation keeps nothing in memory that a rollback makes wrong.
   */
  readonly write: OperationTable;
  /** Run in a reading thread, which has a connection of its own. */
  readonly read: OperationTable;
};

/** A file of operations. Threads load it by its URL, because functions cannot be sent to a thread. */
export type OperationModule = {
  /** The tables that the operations need. */
  readonly migrations: readonly FileMigration[];
  writeOperations(db: DatabaseSync): OperationTable;
  readOperations(db: DatabaseSync): OperationTable;
  /** Write operations that need room: on a full disk they fail, and the others may use the reserve. */
  readonly growing: readonly string[];
};

/** The operations of a file, from `typeof` its import. */
export type OperationsOf<Module extends OperationModule> = {
  readonly write: ReturnType<Module['writeOperations']>;
  readonly read: ReturnType<Module['readOperations']>;
};

export type NameIn<Table extends OperationTable> = keyof Table & string;

/** The writing thread has the only connection that may write; each reading thread has a connection of its own. */
export type ThreadAccess = 'write' | 'read';

/** One call as it is sent: the operation's name, then its arguments. */
export type Call = readonly [name: string, ...args: unknown[]];

export type ThreadData = {
  readonly file: string;
  readonly access: ThreadAccess;
  /** The URL of an `OperationModule`. */
  readonly operations: string;
  /** The file that the thread deletes when the disk is full; writing threads only. */
  readonly reserve: string | undefined;
  /** Upper bound of the file's size in pages, for tests of a full disk. */
  readonly maxPages: number | undefined;
};

/** Why a call, or the opening, failed. */
export type Failure = {
  readonly message: string;
  /** SQLite's extended result code; undefined for any other error. */
  readonly errcode: number | undefined;
  /** The file is of a newer version of the program (`NewerDataError`). */
  readonly isNewer?: boolean;
};

/** The changes that opening a file made to it. */
export type Opening = {
  /** Where a damaged file was moved; undefined if the file was sound. */
  readonly corrupt: string | undefined;
  /** Undefined if the file was new, or had the newest version. */
  readonly migrated: MigratedFile | undefined;
};

/** Messages from a thread. The results of a group are in the order of its calls. */
export type ThreadMessage =
  | { readonly type: 'ready'; readonly opening: Opening }
  | { readonly type: 'unusable'; readonly failure: Failure }
  | {
      readonly type: 'done';
      readonly results: readonly unknown[];
      /** Set if a call failed; undefined for each call that succeeded. */
      readonly failures: readonly (Failure | undefined)[] | undefined;
      /** The thread gave up the reserve during this group. */
      readonly reserveUsed: boolean;
    }
  | { readonly type: 'closed' };
