import type { DatabaseSync } from 'node:sqlite';
import { NewerDataError } from '../model/errors.ts';
import { cell, finds } from './rows.ts';

/**
 * A change of the tables of a kind of file. The n-th migration of a list leads to version n, which the file keeps in
 * `PRAGMA user_version` and as a row of `schema_migrations`; a released migration never changes. A file of a release
 * without versions has version 0 and some of the tables of version 1, so the first migration creates what is missing.
 */
export type FileMigration = { readonly name: string; apply(db: DatabaseSync): void };

/** The versions before and after a migration of a file with tables. */
export type MigratedFile = { readonly from: number; readonly to: number };

/** The name of the table with a row for each migration of the file. */
export const MIGRATIONS_TABLE = 'schema_migrations';
/** Files of this version and of earlier ones may lack the table. */
const LAST_WITHOUT_TABLE = 1;

/** Throws `NewerDataError` if the file has a version that the program does not know. Changes nothing. */
export function refuseNewer(
  db: DatabaseSync,
  file: string,
  migrations: readonly FileMigration[],
): void {
  const version = fileVersion(db);
  const known = migrations.length;
  if (version <= known) return;
  throw new NewerDataError(
    `${file} was written by a newer version of tracectl: its tables have version ${version}, and this version knows them up to ${known}. Start that version or a later one, or restore a backup from before the upgrade.`,
  );
}

/**
 * Corrects a version number in the header that the table of migrations contradicts, as damage to the header leaves it.
 * Returns the damaged number and the true one; undefined if both agree.
 */
export function mendVersion(db: DatabaseSync): MigratedFile | undefined {
  const [from, to] = [headerVersion(db), fileVersion(db)];
  if (from === to) return undefined;
  db.exec(`PRAGMA user_version = ${to}`);
  return { from, to };
}

/**
 * Brings the tables to a version, by default the newest, each migration in a transaction. Returns undefined if no
 * migration was missing, or if the file was new.
 */
export function migrateFile(
  db: DatabaseSync,
  migrations: readonly FileMigration[],
  to = migrations.length,
): MigratedFile | undefined {
  const from = fileVersion(db);
  const isNew = !finds(db, 'SELECT 1 FROM sqlite_schema LIMIT 1')();
  recordMigrations(db, migrations.slice(0, from));
  for (const [i, migration] of migrations.slice(0, to).entries()) {
    if (i < from) continue;
    db.exec('BEGIN IMMEDIATE');
    try {
      migration.apply(db);
      recordMigration(db, i + 1, migration);
      db.exec(`PRAGMA user_version = ${i + 1}`);
      db.exec('COMMIT');
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  }
  return isNew || from >= to ? undefined : { from, to };
}

/**
 * The version of the tables. The table of migrations decides, because a damaged number in the header looks like the
 * version of another release. A file without the table has one of the versions that were released without it; any
 * other number is damage, and the first migration creates what is missing.
 */
export function fileVersion(db: DatabaseSync): number {
  if (hasMigrationsTable(db)) {
    return cell<number>(db, `SELECT coalesce(max(version), 0) FROM ${MIGRATIONS_TABLE}`)() ?? 0;
  }
  const version = headerVersion(db);
  return version >= 0 && version <= LAST_WITHOUT_TABLE ? version : 0;
}

function headerVersion(db: DatabaseSync): number {
  return cell<number>(db, 'PRAGMA user_version')() ?? 0;
}

function hasMigrationsTable(db: DatabaseSync): boolean {
  return finds(db, 'SELECT 1 FROM sqlite_schema WHERE name = ?')(MIGRATIONS_TABLE);
}

/** Creates the table of migrations in a file that lacks it, with a row for each migration that the file has. */
function recordMigrations(db: DatabaseSync, applied: readonly FileMigration[]): void {
  if (hasMigrationsTable(db)) return;
  db.exec('BEGIN IMMEDIATE');
  try {
    db.exec(
      `CREATE TABLE ${MIGRATIONS_TABLE} (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT`,
    );
    for (const [i, migration] of applied.entries()) recordMigration(db, i + 1, migration);
    db.exec('COMMIT');
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

function recordMigration(db: DatabaseSync, version: number, { name }: FileMigration): void {
  db.prepare(`INSERT INTO ${MIGRATIONS_TABLE} VALUES (?, ?)`).run(version, name);
}
