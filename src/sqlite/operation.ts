import type { DatabaseSync } from 'node:sqlite';
import type { DataError } from '../model/errors.ts';
import type { LogDamage } from './log-damage.ts';
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
   * operation keeps nothing in memory that a rollback makes wrong, unless a `GroupEnd` drops it.
   */
  readonly write: OperationTable;
  /** Run in a reading thread, which has a connection of its own. */
  readonly read: OperationTable;
};

/** The operations of a group do this once, behind its last call. */
export type GroupEnd = {
  /** Runs in the transaction of the group. */
  beforeCommit(): void;
  /** The transaction was rolled back. */
  rolledBack(): void;
};

/** A file of operations. Threads load it by its URL, because functions cannot be sent to a thread. */
export type OperationModule = {
  /** The tables that the operations need. */
  readonly migrations: readonly FileMigration[];
  writeOperations(db: DatabaseSync): OperationTable;
  readOperations(db: DatabaseSync): OperationTable;
  readonly groupEnd?: (db: DatabaseSync) => GroupEnd;
  /**
   * Tables without which the file must not be used, such as those of the keys: a start refuses a damaged file that
   * lacks a row of them. The first has a row in every file in use. Undefined: a start keeps what is readable.
   */
  readonly essential?: readonly string[];
  /** A table that is made of the others. */
  readonly derived?: DerivedTable;
  /**
   * Statements that a salvage executes behind the copies. They remove the rows that belong to lost ones, because a new row may get the
   * number of a lost one, and make lost rows again that others name.
   */
  readonly repairs?: readonly SalvageRepair[];
  /** Write operations that need room: on a full disk they fail, and the others may use the reserve. */
  readonly growing: readonly string[];
  /** KiB of pages that each connection keeps in memory; undefined for 16 MiB. They stay after the load that read them. */
  readonly cacheKib?: number;
};

/** A salvage does not copy the table, because it may lack rows, and then executes the statements: the rows are made again. */
export type DerivedTable = { readonly name: string; readonly remake: string };

/** A salvage executes the statement if the file, which may be of an earlier version, has the table. */
export type SalvageRepair = {
  readonly table: string;
  readonly statement: string;
  /** Only if rows of the table were lost. */
  readonly ifIncomplete?: boolean;
  /** Only if the file has these tables, and lost no row of them. */
  readonly ifComplete?: readonly string[];
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
  /** The file whose existence says that the database has had its essential rows. */
  readonly filled: string;
  /** The file that the thread deletes when the disk is full; writing threads only. */
  readonly reserve: string | undefined;
  /** The size of that file; 0 without one. */
  readonly reserveBytes: number;
  /** Upper bound of the file's size in pages, for tests of a full disk. */
  readonly maxPages: number | undefined;
};

/** A file that a connection has attached failed a call, and not the database: the call fails alone. */
export class AttachedFileError extends Error {
  override readonly name = 'AttachedFileError';
  readonly file: string;
  readonly isDamaged: boolean;

  constructor(message: string, options: AttachedFile & { readonly cause: unknown }) {
    super(message, { cause: options.cause });
    this.file = options.file;
    this.isDamaged = options.isDamaged;
  }
}

export type AttachedFile = { readonly file: string; readonly isDamaged: boolean };

/** Why a call, or the opening, failed. */
export type Failure = {
  readonly message: string;
  /** SQLite's extended result code; undefined for any other error. */
  readonly errcode: number | undefined;
  /** The code of an error about the file as a whole, which only the opening has. */
  readonly dataError?: DataError['code'] | undefined;
  /** Set if an attached file failed, and not the database. */
  readonly attached?: AttachedFile | undefined;
};

/** The damage that opening a file found, and the changes that it made. */
export type Opening = {
  /** Where a damaged file was moved; undefined if the file was sound. */
  readonly corrupt: string | undefined;
  /** Undefined if the file was new, or had the newest version. */
  readonly migrated: MigratedFile | undefined;
  /** The damaged version number and the true one; undefined if the number was sound. */
  readonly mended: MigratedFile | undefined;
  /** Commits that SQLite left out; `kept` is a copy of the log, undefined if it could not be made. */
  readonly log: (LogDamage & { readonly kept: string | undefined }) | undefined;
  /** The disk was full, and the thread gave up the reserve. */
  readonly reserveUsed: boolean;
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
      /** The path that does not lead to the open file any more: nothing of this group counts as written. */
      readonly moved: string | undefined;
      /** The error of a sync that failed, after which the thread writes no more. */
      readonly unsynced: string | undefined;
    }
  | { readonly type: 'closed' };
