import type { DatabaseSync } from 'node:sqlite';
import { NewerDataError } from '../model/errors.ts';
import { cell, finds } from './rows.ts';

/**
 * A change of the tables of a kind of file. The n-th migration of a list leads to version n, which the file keeps in
 * `PRAGMA user_version`; a released migration never changes. A file of a release without versions has version 0 and
 * some of the tables of version 1, so the first migration creates what is missing.
 */
export type FileMigration = { readonly name: string; apply(db: DatabaseSync): void };

/** The versions before and after a migration of a file with tables. */
export type MigratedFile = { readonly from: number; readonly to: number };

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
  for (const [i, migration] of migrations.slice(0, to).entries()) {
    if (i < from) continue;
    db.exec('BEGIN IMMEDIATE');
    try {
      migration.apply(db);
      db.exec(`PRAGMA user_version = ${i + 1}`);
      db.exec('COMMIT');
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  }
  return isNew || from >= to ? undefined : { from, to };
}

export function fileVersion(db: DatabaseSync): number {
  return cell<number>(db, 'PRAGMA user_version')() ?? 0;
}
