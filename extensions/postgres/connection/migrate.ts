import type { Postgres } from './pool.ts';
import type { PostgresClient } from './statement.ts';

/** A step that changes the tables; once released it stays as it is. */
export type Migration = { readonly name: string; readonly sql: string };

/** Any number that nobody else locks. */
const LOCK = 7_227_322_001;

/** Brings the tables up to date, in one transaction; of processes that start together one does it. */
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

/** For a role that may not change tables: rejects with a sentence where something is missing. */
export async function assertMigrated(
  postgres: Postgres,
  migrations: readonly Migration[],
): Promise<void> {
  const { rows } = await postgres.query("SELECT to_regclass('schema_migrations') AS name");
  const missing = rows[0]?.name === null ? migrations : await missingOf(postgres, migrations);
  if (missing.length === 0) return;
  const names = missing.map(({ name }) => name).join(', ');
  throw new Error(
    `the tables in Postgres are not up to date (${names}): start once with migrate: auto and a role that may create tables`,
  );
}

async function missingOf(
  client: PostgresClient,
  migrations: readonly Migration[],
): Promise<Migration[]> {
  const { rows } = await client.query('SELECT name FROM schema_migrations');
  const applied = new Set(rows.map(({ name }) => String(name)));
  return migrations.filter(({ name }) => !applied.has(name));
}
