import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import type { Test } from 'tap';
import type { QueueNames } from './store-snapshot.ts';

/** The fixtures of releases: files that a release wrote, and everything that it read back. See make.ts there. */
const FOLDER = fileURLToPath(new URL('../fixtures/stores/', import.meta.url));

type ReleaseFile = {
  /** When the release took the snapshot, in milliseconds since the epoch. */
  readonly now: number;
  readonly queues: readonly QueueNames[];
  readonly snapshot: unknown;
};

export type StoredRelease = {
  readonly name: string;
  readonly store: ReleaseFile;
  readonly queues: ReleaseFile & { readonly usage: unknown };
};

export function storedReleases(): StoredRelease[] {
  return globSync(`${FOLDER}*/expected.json`)
    .sort()
    .map((file) => {
      const expected = JSON.parse(readFileSync(file, 'utf8')) as Omit<StoredRelease, 'name'>;
      return { name: basename(join(file, '..')), ...expected };
    });
}

export type StoredPostgres = ReleaseFile & {
  readonly name: string;
  /** Statements that restore the dump into an empty database. */
  readonly sql: string;
};

/** The dumps of stores in Postgres. See make-postgres.ts there. */
export function storedPostgres(): StoredPostgres[] {
  return globSync(`${FOLDER}*/postgres.json`)
    .sort()
    .map((file) => {
      const folder = join(file, '..');
      const sql = gunzipSync(readFileSync(join(folder, 'postgres.sql.gz'))).toString();
      const expected = JSON.parse(readFileSync(file, 'utf8')) as ReleaseFile;
      return { name: basename(folder), sql, ...expected };
    });
}

/** Unpacks a file of a release into a directory of its own; `change` is run in it. */
export function unpack(t: Test, release: StoredRelease, file: string, change = ''): string {
  const directory = join(t.testdir({}), 'data');
  mkdirSync(directory);
  const path = join(directory, file);
  writeFileSync(path, gunzipSync(readFileSync(join(FOLDER, release.name, `${file}.gz`))));
  const db = new DatabaseSync(path);
  db.exec(change);
  db.close();
  return directory;
}

/** The tables, indexes and triggers of a file. */
export function schemaOf(file: string): { name: string; sql: string }[] {
  const db = new DatabaseSync(file, { readOnly: true });
  const rows = db
    .prepare("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
    .all();
  db.close();
  return rows.map(({ name, sql }) => ({
    name: String(name),
    // Comments and white space differ between releases.
    sql: String(sql).replaceAll(/--.*/g, '').replaceAll(/\s+/g, ' '),
  }));
}
