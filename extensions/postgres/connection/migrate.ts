import { NewerDataError } from '../../../src/model/errors.ts';
import { isConflict } from './errors.ts';
import type { Postgres } from './pool.ts';
import { repeated } from './repeated.ts';
import type { PostgresClient } from './statement.ts';
import { row, rows } from './statement.ts';

/** A change of the tables. A released migration never changes. */
export type Migration = { readonly name: string; readonly sql: string };

/** Key of an advisory lock that is used for migrations only. */
const LOCK = 7_227_322_001;

/**
 * Transactions of a migration, of which each but the last was rolled back for a deadlock: a process that runs may lock the tables in another
 * order, and the server then ends one of both transactions.
 */
const ATTEMPTS = 5;

/**
 * Brings the tables up to date, each migration in a transaction: processes of the version before continue to run, and wait for the locks of
 * one migration only. Processes that start together share the work. Resolves with the names of the migrations that this one made. Rejects
 * with `NewerDataError`, and changes nothing, if the database has a migration that this version does not know.
 */
export async function migrate(
  postgres: Postgres,
  migrations: readonly Migration[],
): Promise<readonly string[]> {
  const applied: string[] = [];
  for (;;) {
    const name = await repeated(ATTEMPTS, isConflict, () => applyNext(postgres, migrations));
    if (name === undefined) return applied;
    applied.push(name);
  }
}

/** Undefined if no migration is missing. */
async function applyNext(
  postgres: Postgres,
  migrations: readonly Migration[],
): Promise<string | undefined> {
  return postgres.transaction(async (client) => {
    await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
    await client.query(
      'CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    const [next] = await missingOf(client, migrations);
    if (next === undefined) return undefined;
    await client.query(next.sql);
    await client.query('INSERT INTO schema_migrations (name) VALUES ($1)', [next.name]);
    return next.name;
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
