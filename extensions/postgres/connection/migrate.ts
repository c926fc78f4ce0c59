import { NewerDataError } from '../../../src/model/errors.ts';
import type { Postgres } from './pool.ts';
import type { PostgresClient } from './statement.ts';
import { row, rows } from './statement.ts';

/** A change of the tables. A released migration never changes. */
export type Migration = { readonly name: string; readonly sql: string };

/** Key of an advisory lock that is used for migrations only. */
const LOCK = 7_227_322_001;

/**
 * Brings the tables up to date in one transaction; of processes that start together one does it. Resolves with the
 * names of the migrations that were missing. Rejects with `NewerDataError`, and changes nothing, if the database has
 * a migration that this version does not know.
 */
export async function migrate(
  postgres: Postgres,
  migrations: readonly Migration[],
): Promise<readonly string[]> {
  return postgres.transaction(async (client) => {
    await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
    await client.query(
      'CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    const missing = await missingOf(client, migrations);
    for (const { name, sql } of missing) {
      await client.query(sql);
      await client.query('INSERT INTO schema_migrations (name) VALUES ($1)', [name]);
    }
    return missing.map(({ name }) => name);
  });
}

/** For a role that may not change tables: rejects if a migration is missing, and if one is unknown. */
export async function assertMigrated(
  postgres: Postgres,
  migrations: readonly Migration[],
): Promise<void> {
  const table = await row<{ name: string | null }>(
    postgres,
    "SELECT to_regclass('schema_migrations')::text AS name",
  );
  const isNew = table === undefined || table.name === null;
  const missing = isNew ? migrations : await missingOf(postgres, migrations);
  if (missing.length === 0) return;
  const names = missing.map(({ name }) => name).join(', ');
  throw new Error(
    `The tables in Postgres are not up to date (${names}). ` +
      'Start tracectl once with "migrate: auto" and a role that may create tables.',
  );
}

async function missingOf(
  client: PostgresClient,
  migrations: readonly Migration[],
): Promise<Migration[]> {
  const found = await rows<{ name: string }>(client, 'SELECT name FROM schema_migrations');
  const applied = new Set(found.map(({ name }) => name));
  refuseUnknown(applied, migrations);
  return migrations.filter(({ name }) => !applied.has(name));
}

function refuseUnknown(applied: ReadonlySet<string>, migrations: readonly Migration[]): void {
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = [...applied].filter((name) => !known.has(name)).sort();
  if (unknown.length === 0) return;
  const newest = migrations.at(-1)?.name ?? 'none';
  throw new NewerDataError(
    `A newer version of tracectl changed the tables in Postgres (${unknown.join(', ')}); ` +
      `this version knows them up to ${newest}. ` +
      'Start that version or a later one, or restore a backup from before the upgrade.',
  );
}
