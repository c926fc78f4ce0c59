import { existsSync, renameSync, rmSync } from 'node:fs';
import type { SQLOutputValue, StatementSync } from 'node:sqlite';
import { DatabaseSync } from 'node:sqlite';
import { fileVersion } from './migrate.ts';
import { rows, tuples } from './rows.ts';

/**
 * Moves a damaged database aside and copies every readable row into a fresh one, table by table, from both ends up
 * to the damage. `create` makes the fresh file with the tables of the damaged file's version. Returns where the
 * damaged file was moved.
 */
export function salvage(file: string, create: (file: string, version: number) => void): string {
  const aside = `${file}.corrupt-${new Date().toISOString().replaceAll(':', '')}`;
  // The log moves with its database: it may hold the newest commits.
  for (const suffix of ['', '-wal']) {
    if (existsSync(file + suffix)) renameSync(file + suffix, aside + suffix);
  }
  rmSync(`${file}-shm`, { force: true });
  create(file, versionIn(aside));
  const fresh = new DatabaseSync(file);
  try {
    fresh.exec('PRAGMA synchronous = FULL');
    for (const table of tablesOf(fresh)) copyTable(fresh, aside, table);
  } finally {
    fresh.close();
  }
  return aside;
}

/** The version of the damaged file, as far as it is readable; a file without versions has the first tables. */
function versionIn(aside: string): number {
  try {
    return Math.max(1, readDamaged(aside, fileVersion));
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function readDamaged<T>(aside: string, read: (old: DatabaseSync) => T): T {
  const old = new DatabaseSync(aside, { defensive: false });
  try {
    // Makes SQLite open a file that is shorter than its header says.
    old.exec('PRAGMA writable_schema = ON');
    return read(old);
  } finally {
    old.close();
  }
}

function tablesOf(db: DatabaseSync): string[] {
  const tables = rows<{ name: string }>(
    db,
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
  );
  return tables.all().map(({ name }) => name);
}

function columnsOf(db: DatabaseSync, table: string): string[] {
  const columns = rows<{ name: string }>(db, 'SELECT name FROM pragma_table_info(?)');
  return columns.all(table).map(({ name }) => name);
}

function copyTable(fresh: DatabaseSync, aside: string, table: string): void {
  fresh.exec('BEGIN');
  try {
    readDamaged(aside, (old) => {
      const known = columnsOf(old, table);
      const columns = columnsOf(fresh, table).filter((column) => known.includes(column));
      const places = columns.map(() => '?').join(', ');
      const insert = fresh.prepare(
        `INSERT OR IGNORE INTO ${table} (${columns.join(', ')}) VALUES (${places})`,
      );
      for (const direction of ['ASC', 'DESC']) copyRows(old, insert, table, columns, direction);
    });
  } catch {
    // The schema itself is not readable: no row can be copied.
  } finally {
    fresh.exec('COMMIT');
  }
}

function copyRows(
  old: DatabaseSync,
  insert: StatementSync,
  table: string,
  columns: readonly string[],
  direction: string,
): void {
  const key = rows<{ name: string }>(
    old,
    'SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk',
  )
    .all(table)
    .map(({ name }) => `${name} ${direction}`);
  const order = key.length === 0 ? '' : ` ORDER BY ${key.join(', ')}`;
  const readable = tuples<SQLOutputValue[]>(
    old,
    `SELECT ${columns.join(', ')} FROM ${table}${order}`,
  );
  try {
    for (const row of readable.iterate()) {
      try {
        insert.run(...row);
      } catch {
        // A row that breaks a constraint is left out; the others are copied.
      }
    }
  } catch {
    // The damage begins here; the other direction copies the rows behind it.
  }
}
