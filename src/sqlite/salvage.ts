import { existsSync, renameSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/**
 * Moves a damaged database aside and copies every row that can still be read into a fresh one, table by
 * table, from both ends up to the damage. `create` makes the fresh file with its tables.
 * Returns where the damaged file was moved.
 */
export function salvage(file: string, create: (file: string) => void): string {
  const aside = `${file}.corrupt-${new Date().toISOString().replaceAll(':', '')}`;
  // The log goes with its database: it may hold the newest commits.
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
    // Lets SQLite open a file that is shorter than its header says.
    old.exec('PRAGMA writable_schema = ON');
    for (const direction of ['ASC', 'DESC']) copyRows(old, insert, table, columns, direction);
  } catch {
    // Not even the schema can be read: there is nothing to copy.
  } finally {
    fresh.exec('COMMIT');
    old?.close();
  }
}

function copyRows(
  old: DatabaseSync,
  insert: ReturnType<DatabaseSync['prepare']>,
  table: string,
  columns: readonly string[],
  direction: string,
): void {
  const key = old
    .prepare(`SELECT name FROM pragma_table_info('${table}') WHERE pk > 0 ORDER BY pk`)
    .all()
    .map((row) => `${String(row.name)} ${direction}`);
  const rows = old.prepare(
    `SELECT ${columns.join(', ')} FROM ${table}${key.length === 0 ? '' : ` ORDER BY ${key.join(', ')}`}`,
  );
  rows.setReturnArrays(true);
  try {
    for (const row of rows.iterate()) {
      try {
        insert.run(...(row as unknown as (string | number | null)[]));
      } catch {
        // One row that contradicts a rule of the table does not keep the others out.
      }
    }
  } catch {
    // The damage begins here; the other direction gets what lies behind it.
  }
}
