import pg from 'pg';
import t from 'tap';
import { openPools } from '../../../../extensions/postgres/connection/pools.ts';
import { systemClock } from '../../../../src/component/clock.ts';
import { postgresServer } from '../../../helper/postgres-server.ts';
import { recordingLogger } from '../../../helper/settings.ts';

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(text);
  await client.end();
}

t.test('leaves connections to others while commits wait for a standby that is away', async (t) => {
  const server = await postgresServer(t);
  const url = await server.database();
  const root = server.urlOf('postgres');
  const pools = await openPools({
    ...{ url, tls: undefined, clock: systemClock, logger: recordingLogger() },
    ...{ maxConnections: 2, readConnections: 2, connectTimeout: 5_000 },
    timeouts: {
      ...{ accept: 300, write: 300, read: 5_000 },
      ...{ verify: 5_000, rebuild: 5_000, housekeeping: 5_000 },
    },
  });
  t.teardown(() => pools.close());
  const insert = (pool: 'accept' | 'write'): Promise<unknown> =>
    pools[pool].transaction((client) => client.query('INSERT INTO numbers VALUES (1)', []));
  const waiting = async (): Promise<number> => {
    const { rows } = await pools.read.query(
      `SELECT count(*)::integer AS n FROM pg_stat_activity WHERE wait_event = 'SyncRep'`,
    );
    return Number(rows[0]?.n);
  };
  const works = async (): Promise<void> => {
    for (const pool of ['accept', 'write'] as const) {
      while (!(await insert(pool).then(Boolean, () => false)));
    }
  };
  await query(url, 'CREATE TABLE numbers (n integer)');
  await works();

  await query(root, `ALTER SYSTEM SET synchronous_standby_names = 'absent'`);
  await query(root, 'SELECT pg_reload_conf()');
  while ((await waiting()) === 0) await insert('accept').catch(() => {});
  for (let i = 0; i < 15; i++) {
    await t.rejects(insert('accept'), { name: 'RetryableError', code: 'storage_failed' });
    await t.rejects(insert('write'), { name: 'RetryableError', code: 'storage_failed' });
  }
  t.ok((await waiting()) <= 6, 'as many as the limit and the connections that were open');
  const message = /wait for a synchronous standby \(TL002\)\. Start the standby/;
  t.match(pools.outage(), { isAway: false, message });

  await query(root, 'ALTER SYSTEM RESET synchronous_standby_names');
  await query(root, 'SELECT pg_reload_conf()');
  while ((await waiting()) > 0);
  await works();
});
