import { existsSync, renameSync, rmSync } from 'node:fs';
import type { SQLOutputValue, StatementSync } from 'node:sqlite';
import { DatabaseSync } from 'node:sqlite';
import { tuples } from './rows.ts';

/**
 * Moves a damaged database aside and copies every readable row into a fresh one, table by table, from both ends up
 * to the damage. `create` makes the fresh file with its tables. Returns where the damaged file was moved.
 */
export function salvage(file: string, create: (file: string) => void): string {
  const aside = `${file}.corrupt-${new Date().toISOString().replaceAll(':', '')}`;
  // The log moves with its database: it may hold the newest commits.
  for (const suffix of ['', '-wal']) {
    if (existsSync(file + suffix)) renameSync(file + suffix, aside + suffix);
  }
  rmSync(`${file}-shm`, { force: true });
  create(file);
  const fresh = new DatabaseSync(file);
  try {
    fresh.exec('PRAGMA synchronous = FULL');
    for (const table of tablesOf(fresh)) copyTable(fresh, aside, table);
  } finally {
    fresh.close();
  }
  return aside;
}

function tablesOf(db: DatabaseSync): string[] {
  const rows = db
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all();
  return rows.map((row) => String(row.name));
}

function copyTable(fresh: DatabaseSync, aside: string, table: string): void {
  const columns = fresh
    .prepare(`SELECT name FROM pragma_table_info('${table}')`)
    .all()
    .map((row) => String(row.name));
  const insert = fresh.prepare(
    `INSERT OR IGNORE INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
  );
  let old: DatabaseSync | undefined;
  fresh.exec('BEGIN');
  try {
    old = new DatabaseSync(aside, { defensive: false });
    // Makes SQLite open a file that is shorter than its header says.
    old.exec('PRAGMA writable_schema = ON');
    for (const direction of ['ASC', 'DESC']) copyRows(old, insert, table, columns, direction);
  } catch {
    // The schema itself is not readable: no row can be copied.
  } finally {
    fresh.exec('COMMIT');
    old?.close();
  }
}

function copyRows(
  old: DatabaseSync,
  insert: StatementSync,
  table: string,
  columns: readonly string[],
  direction: string,
): void {
  const key = old
    .prepare(`SELECT name FROM pragma_table_info('${table}') WHERE pk > 0 ORDER BY pk`)
    .all()
    .map((row) => `${String(row.name)} ${direction}`);
  const query = tuples<SQLOutputValue[]>(
    old,
    `SELECT ${columns.join(', ')} FROM ${table}${key.length === 0 ? '' : ` ORDER BY ${key.join(', ')}`}`,
  );
  try {
    for (const row of query.iterate()) {
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
