import {
  closeSync,
  existsSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { SQLOutputValue, StatementSync } from 'node:sqlite';
import { DatabaseSync } from 'node:sqlite';
import { DamagedDataError } from '../model/errors.ts';
import { fileVersion, MIGRATIONS_TABLE } from './migrate.ts';
import type { DerivedTable, SalvageRepair } from './operation.ts';
import { finds, rows, tuples } from './rows.ts';
import type { KeyColumn } from './salvage-keys.ts';
import { copyByKey } from './salvage-keys.ts';

export type SalvageOptions = {
  readonly file: string;
  /** Creates the tables of a version in an empty file. */
  readonly create: (file: string, version: number) => void;
  /** `OperationModule.essential`: tables that must be readable as a whole. Empty: whatever is readable suffices. */
  readonly essential: readonly string[];
  readonly derived?: DerivedTable | undefined;
  /** `OperationModule.repairs`. */
  readonly repairs?: readonly SalvageRepair[] | undefined;
};

export type SalvagedTable = {
  readonly name: string;
  readonly rows: number;
  /** Whether every row was read and copied. */
  readonly isComplete: boolean;
};

export type Salvaged = {
  /** Where the damaged file was moved. */
  readonly kept: string;
  readonly tables: readonly SalvagedTable[];
};

/** Ending of the file that takes the place of the damaged one. It has this name only if it is complete and synced. */
const READY = '.salvaged';
const UNFINISHED = '.salvaging';
/** Endings of every file that a salvage makes beside the damaged one. */
export const SALVAGE_ENDINGS = [READY, UNFINISHED, `${UNFINISHED}-wal`, `${UNFINISHED}-shm`];

/**
 * Copies every readable row of a database into a new one, table by table; then moves
 * the damaged one aside, and the new one into its place. Throws `DamagedDataError`, and changes nothing, if an
 * essential table is incomplete.
 *
 *   store.db ──rows──▶ store.db.salvaging ──synced──▶ store.db.salvaged
 *   store.db-wal, store.db ──▶ store.db.corrupt-…          └──▶ store.db
 */
export function salvage(options: SalvageOptions): Salvaged {
  const { file, create } = options;
  const fresh = file + UNFINISHED;
  removeUnfinished(file);
  let tables: SalvagedTable[];
  try {
    makeEmpty(fresh, file);
    create(fresh, versionIn(file));
    tables = copyTables(fresh, options);
  } catch (error) {
    removeUnfinished(file);
    throw error;
  }
  syncFile(fresh);
  renameSync(fresh, file + READY);
  syncFile(dirname(file));
  const kept = finishSalvage(file);
  if (kept === undefined) throw new Error(`${file}${READY} is missing`);
  return { kept, tables };
}

/**
 * Puts the salvaged file into its place: the last part of a salvage, and the first part of a start after a crash in it. Returns
 * the new path of the damaged file; undefined if there is no salvaged file.
 */
export function finishSalvage(file: string): string | undefined {
  if (!existsSync(file + READY)) return undefined;
  const aside = `${file}.corrupt-${stamp()}`;
  // The log moves first: a log beside the new file would be applied to it.
  for (const suffix of ['-wal', '']) {
    if (existsSync(file + suffix)) renameSync(file + suffix, aside + suffix);
  }
  rmSync(`${file}-shm`, { force: true });
  renameSync(file + READY, file);
  syncFile(dirname(file));
  return aside;
}

/**
 * Makes the file for the owner of the damaged one alone. Root may salvage the files of a daemon that runs as another user, and SQLite itself
 * would let every user of the machine read the file.
 */
function makeEmpty(fresh: string, damaged: string): void {
  const { uid, gid } = statSync(existsSync(damaged) ? damaged : dirname(damaged));
  const file = openSync(fresh, 'wx', 0o600);
  try {
    fchmodSync(file, 0o600);
    if (process.geteuid?.() === 0) fchownSync(file, uid, gid);
  } catch (error) {
    // Root of a container may lack the right, and then runs the daemon, too.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error;
  } finally {
    closeSync(file);
  }
}

/** Removes what a salvage left that did not finish. */
export function removeUnfinished(file: string): void {
  for (const suffix of ['', '-wal', '-shm']) rmSync(file + UNFINISHED + suffix, { force: true });
}

/** A time as a part of a file name. */
export function stamp(): string {
  return new Date().toISOString().replaceAll(':', '');
}

function syncFile(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** The version of the damaged file, as far as it is readable; a file without versions has the first tables. */
function versionIn(damaged: string): number {
  try {
    return Math.max(1, readDamaged(damaged, fileVersion));
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function readDamaged<T>(damaged: string, read: (old: DatabaseSync) => T): T {
  // SQLite deletes the log of an empty file.
  if (!existsSync(damaged) || statSync(damaged).size === 0) throw new Error(`${damaged} is empty`);
  const old = new DatabaseSync(damaged, { defensive: false, readOnly: true });
  try {
    // Makes SQLite open a file that is shorter than its header says.
    old.exec('PRAGMA writable_schema = ON');
    return read(old);
  } finally {
    old.close();
  }
}

function copyTables(
  file: string,
  { file: damaged, essential, derived, repairs = [] }: SalvageOptions,
): SalvagedTable[] {
  const fresh = new DatabaseSync(file);
  try {
    fresh.exec('PRAGMA synchronous = FULL');
    const names = tablesOf(fresh);
    const copied = names.filter((name) => name !== derived?.name);
    const last = copied.filter((name) => !essential.includes(name));
    const copies: Pick<SalvagedTable, 'name' | 'isComplete'>[] = [];
    for (const name of [...essential, ...last]) {
      const isComplete = copyTable(fresh, damaged, name);
      const isEnough = isComplete && (name !== essential[0] || countRows(fresh, name) > 0);
      if (!isEnough && essential.includes(name)) throw incomplete(damaged, essential);
      copies.push({ name, isComplete });
    }
    const complete = copies.filter((copy) => copy.isComplete).map(({ name }) => name);
    for (const { table, statement, ifIncomplete = false, ifComplete = [] } of repairs) {
      const isSound = ifComplete.every((name) => complete.includes(name));
      const isSpared = (ifIncomplete && complete.includes(table)) || !isSound;
      if (names.includes(table) && !isSpared) fresh.exec(statement);
    }
    if (derived !== undefined && names.includes(derived.name)) fresh.exec(derived.remake);
    return copies.map((copy) => ({ ...copy, rows: countRows(fresh, copy.name) }));
  } finally {
    fresh.close();
  }
}

function incomplete(file: string, essential: readonly string[]): DamagedDataError {
  return new DamagedDataError(
    `${file} is damaged, and its ${essential.join(', ')} cannot be read as a whole. ${REMEDY}`,
  );
}

/** The last sentences of every refusal of a damaged file. */
export const REMEDY =
  'Nothing was changed. Restore a backup, or run "tracectl salvage", which copies every readable row into a new file and keeps the damaged one; a store without projects then starts as a new one.';

function tablesOf(db: DatabaseSync): string[] {
  const tables = rows<{ name: string }>(
    db,
    `SELECT name FROM sqlite_schema
     WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> '${MIGRATIONS_TABLE}'`,
  );
  return tables.all().map(({ name }) => name);
}

function columnsOf(db: DatabaseSync, table: string): string[] {
  return namesOf(db, 'SELECT name FROM pragma_table_info(?)', table);
}

function countRows(db: DatabaseSync, table: string): number {
  return rows<{ n: number }>(db, `SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0;
}

/** Returns whether every row was read and copied. */
function copyTable(fresh: DatabaseSync, damaged: string, table: string): boolean {
  let isComplete = false;
  fresh.exec('BEGIN');
  try {
    isComplete = readDamaged(damaged, (old) => {
      const known = columnsOf(old, table);
      const columns = columnsOf(fresh, table).filter((column) => known.includes(column));
      if (columns.length === 0) return false;
      const insert = insertionInto(fresh, table, columns);
      const copy = (cells: readonly SQLOutputValue[]) => copyRow(insert, cells);
      if (copyByKey(old, { name: table, key: keyOf(old, table), columns }, copy)) return true;
      const sources = coveringIndexes(old, table, columns);
      return sources.some((source) => copyRows(old, copy, columns, source));
    });
  } catch {
    // The schema itself is not readable: no row can be copied.
  } finally {
    fresh.exec('COMMIT');
  }
  return isComplete;
}

/**
 * A row that was copied before stays, and one that a migration made gives way. Of a damaged page SQLite reads rows without values too: the
 * statement fails for them, where `OR IGNORE` would pass over them.
 */
function insertionInto(fresh: DatabaseSync, table: string, columns: readonly string[]) {
  const values = `(${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`;
  const isEmpty = !finds(fresh, `SELECT 1 FROM ${table} LIMIT 1`)();
  return fresh.prepare(
    isEmpty
      ? `INSERT INTO ${table} ${values} ON CONFLICT DO NOTHING`
      : `INSERT OR REPLACE INTO ${table} ${values}`,
  );
}

/** Returns whether every row was read and copied. */
function copyRows(
  old: DatabaseSync,
  copy: (cells: readonly SQLOutputValue[]) => boolean,
  columns: readonly string[],
  source: string,
): boolean {
  const readable = tuples<SQLOutputValue[]>(old, `SELECT ${columns.join(', ')} FROM ${source}`);
  let isWhole = true;
  try {
    for (const row of readable.iterate()) isWhole = copy(row) && isWhole;
  } catch {
    // The damage begins here; the other direction copies the rows behind it.
    isWhole = false;
  }
  return isWhole;
}

/** A row that breaks a constraint is left out; the others are copied. */
function copyRow(insert: StatementSync, cells: readonly SQLOutputValue[]): boolean {
  try {
    insert.run(...cells);
    return true;
  } catch {
    return false;
  }
}

/** The columns in whose order the file has the rows. */
function keyOf(old: DatabaseSync, table: string): KeyColumn[] {
  const info = rows<{ wr: number }>(old, 'SELECT wr FROM pragma_table_list(?)').get(table);
  if (info?.wr !== 1) return [{ name: 'rowid', type: 'INTEGER' }];
  const columns = rows<KeyColumn>(
    old,
    'SELECT name, type FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk',
  );
  return columns.all(table);
}

/**
 * The indexes that have every column, from both ends: a second copy of the rows. That of `queue_branches` decides which
 * destination gets the entries of a queue.
 */
function coveringIndexes(old: DatabaseSync, table: string, columns: readonly string[]): string[] {
  const indexes = namesOf(
    old,
    // The primary key of a table without row ids is the table itself.
    `SELECT name FROM pragma_index_list(?1) WHERE NOT partial
       AND NOT (origin = 'pk' AND (SELECT wr FROM pragma_table_list(?1))) ORDER BY seq`,
    table,
  );
  const alias = namesOf(
    old,
    "SELECT name FROM pragma_table_info(?) WHERE pk = 1 AND upper(type) = 'INTEGER'",
    table,
  );
  return indexes.flatMap((index) => {
    const stored = 'SELECT name FROM pragma_index_xinfo(?) WHERE name IS NOT NULL ORDER BY seqno';
    const order = namesOf(old, stored, index);
    const isCovering = columns.every((name) => order.includes(name) || alias.includes(name));
    return isCovering ? inBothDirections(`${table} INDEXED BY ${index}`, order) : [];
  });
}

function inBothDirections(source: string, order: readonly string[]): string[] {
  return ['ASC', 'DESC'].map((direction) => {
    return `${source} ORDER BY ${order.map((name) => `${name} ${direction}`).join(', ')}`;
  });
}

function namesOf(db: DatabaseSync, text: string, about: string): string[] {
  return rows<{ name: string }>(db, text)
    .all(about)
    .map(({ name }) => name);
}
