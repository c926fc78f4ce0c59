import { MIGRATIONS_TABLE } from '../../src/sqlite/migrate.ts';

/** SQL that gives a file the version of a release after this one, as that release would write it. */
export function newerVersion(version: number): string {
  return `PRAGMA user_version = ${version};
    CREATE TABLE IF NOT EXISTS ${MIGRATIONS_TABLE} (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
    INSERT INTO ${MIGRATIONS_TABLE} VALUES (${version}, 'newer')`;
}
