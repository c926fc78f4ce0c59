import type { DatabaseSync } from 'node:sqlite';

/** Adds a column to a table of an older file. */
export function addColumn(
  db: DatabaseSync,
  table: string,
  column: string,
  definition: string,
): void {
  const known = db.prepare('SELECT 1 FROM pragma_table_info(?) WHERE name = ?');
  if (known.get(table, column) !== undefined) return;
  db.exec(`ALTER TABLE ${table} ADD COLUMN ${column} ${definition}`);
}
