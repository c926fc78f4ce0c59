import pg from 'pg';
import t, { type Test } from 'tap';
import { migrate } from '../../../../extensions/postgres/connection/migrate.ts';
import { openPostgres } from '../../../../extensions/postgres/connection/pool.ts';
import { systemClock } from '../../../../src/component/clock.ts';
import { postgresDatabases } from '../../../helper/postgres-server.ts';
import { recordingLogger } from '../../../helper/settings.ts';
import { until } from '../../../helper/until.ts';

const server = await postgresDatabases(t);

const TABLES = {
  name: '0001-tables',
  sql: 'CREATE TABLE written (n integer); CREATE TABLE other (n integer)',
};

/** A database with two tables, a connection that migrates it, and one of a process that runs. */
async function opened(t: Test) {
  const url = await server.database();
  const [clock, logger] = [systemClock, recordingLogger()];
  const timeouts = { connectTimeout: 5_000, queryTimeout: 60_000 };
  const settings = { url, maxConnections: 2, tls: undefined, clock, logger, ...timeouts };
  const postgres = await openPostgres(settings);
  t.teardown(() => postgres.close());
  await migrate(postgres, [TABLES]);
  const running = new pg.Client({ connectionString: url });
  await running.connect();
  t.teardown(() => running.end());
  const isAwaited = async (lock: string): Promise<boolean> => {
    const text = `SELECT FROM pg_locks WHERE NOT granted AND ${lock}
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
    return (await running.query(text)).rows.length > 0;
  };
  return { postgres, running, isAwaited };
}

t.test('holds no lock of an earlier migration during a later one', async (t) => {
  const { postgres, running, isAwaited } = await opened(t);
  await running.query('SELECT pg_advisory_lock(42)');
  const migrating = migrate(postgres, [
    TABLES,
    { name: '0002-index', sql: 'CREATE INDEX ON written (n)' },
    { name: '0003-long', sql: 'SELECT pg_advisory_xact_lock(42)' },
  ]);
  await until(() => isAwaited(`locktype = 'advisory' AND objid = 42`));
  await running.query("SET lock_timeout = '1ms'");
  await running.query('INSERT INTO written VALUES (1)');
  const { rows } = await running.query('SELECT name FROM schema_migrations ORDER BY name');
  t.same(rows, [{ name: '0001-tables' }, { name: '0002-index' }]);
  await running.query('SELECT pg_advisory_unlock(42)');
  t.same(await migrating, ['0002-index', '0003-long']);
});

t.test('repeats a migration that a deadlock ended', async (t) => {
  const { postgres, running, isAwaited } = await opened(t);
  // The process that runs is patient, so that the server ends the migration.
  await running.query("SET deadlock_timeout = '10min'");
  await running.query('BEGIN');
  await running.query('LOCK TABLE other IN ROW EXCLUSIVE MODE');
  const sql = 'LOCK TABLE written; ALTER TABLE other ADD COLUMN more integer';
  const migrating = migrate(postgres, [TABLES, { name: '0002-more', sql }]);
  await until(() => isAwaited(`relation = 'other'::regclass`));
  await running.query('INSERT INTO written VALUES (1)');
  await running.query('COMMIT');
  t.same(await migrating, ['0002-more']);
});

t.test('two that start together make each migration once', async (t) => {
  const { postgres } = await opened(t);
  const more = Array.from({ length: 10 }, (_, i) => ({
    name: `0002-table-${i}`,
    sql: `CREATE TABLE made_${i} (n integer)`,
  }));
  const made = await Promise.all([1, 2].map(() => migrate(postgres, [TABLES, ...more])));
  t.same(
    made.flat().sort(),
    more.map(({ name }) => name),
  );
});
