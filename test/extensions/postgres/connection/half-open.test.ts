import dns from 'node:dns';
import t from 'tap';
import { holdOffAccepting } from '../../../../extensions/postgres/batches/accept-lock.ts';
import { openPostgres } from '../../../../extensions/postgres/connection/pool.ts';
import { openRedis } from '../../../../extensions/redis/connection.ts';
import { systemClock } from '../../../../src/component/clock.ts';
import { postgresDatabases } from '../../../helper/postgres-server.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const server = await postgresDatabases(t);
const CALLS = 5;

/** A name server that never answers. */
function hangLookups(t: { intercept: typeof import('tap').default.intercept }): () => number {
  const lookups = t.intercept(dns, 'lookup', { value: () => {} });
  return () => lookups().length;
}

t.test('a lookup that hangs counts toward the wait for a connection', async (t) => {
  hangLookups(t);
  const postgres = await openPostgres({
    ...{ url: 'postgres://test@database.test/x', maxConnections: 2, queryTimeout: 5000 },
    ...{ connectTimeout: 300, tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  const began = Date.now();
  const calls = Array.from({ length: CALLS }, () => postgres.query('SELECT 1'));
  for (const { status } of await Promise.allSettled(calls)) t.equal(status, 'rejected');
  await t.rejects(postgres.query('SELECT 1'), { code: 'storage_failed' });
  t.ok(Date.now() - began < 3000, `${Date.now() - began} ms`);
  t.match(postgres.outage(), { isAway: true });
  await postgres.close();
});

t.test('a lookup that hangs holds up neither the start nor commands of Redis', async (t) => {
  hangLookups(t);
  const redis = await openRedis({
    ...{ url: 'redis://cache.test', keyPrefix: 'tracectl', commandTimeout: 300, cluster: false },
    ...{ tls: undefined, sentinel: undefined, clock: systemClock, logger: recordingLogger() },
  });
  t.equal(redis.state().connected, false);
  const began = Date.now();
  await t.rejects(
    redis.run((client) => client.ping()),
    { code: 'redis_failed' },
  );
  t.ok(Date.now() - began < 1000, `${Date.now() - began} ms`);
  await redis.close();
});

t.test(
  'a process that is silent with the accept lock holds others up for a bounded time',
  async (t) => {
    const url = await server.database();
    const open = async (queryTimeout: number) => {
      const postgres = await openPostgres({
        ...{ url, maxConnections: 1, queryTimeout, connectTimeout: 1000, tls: undefined },
        ...{ clock: systemClock, logger: recordingLogger() },
      });
      t.teardown(() => postgres.close());
      return postgres;
    };
    const [silent, other] = [await open(500), await open(20_000)];
    let speak = (): void => {};
    const isSilent = Promise.withResolvers<void>();
    const step = silent.transaction(async (client) => {
      await holdOffAccepting(client);
      isSilent.resolve();
      await new Promise<void>((resolve) => {
        speak = resolve;
      });
      await client.query('SELECT 1');
    });
    const failed = t.rejects(step, { code: 'storage_failed' });
    await isSilent.promise;
    await other.transaction(holdOffAccepting);
    speak();
    await failed;
    const { rows } = await other.query('SHOW idle_in_transaction_session_timeout');
    t.same(
      rows,
      [{ idle_in_transaction_session_timeout: '4s' }],
      'whatever the time-out of a statement is',
    );
  },
);

t.test('the server ends connections of a process that vanished', async (t) => {
  const postgres = await openPostgres({
    ...{ url: await server.database(), maxConnections: 1, queryTimeout: 5000, tls: undefined },
    ...{ connectTimeout: 1000, clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => postgres.close());
  const settings = await postgres.query(
    `SELECT name, setting FROM pg_settings WHERE name LIKE 'tcp%' ORDER BY name`,
  );
  t.same(
    settings.rows.map(({ name, setting }) => [name, setting]),
    [
      ['tcp_keepalives_count', '3'],
      ['tcp_keepalives_idle', '30'],
      ['tcp_keepalives_interval', '10'],
      ['tcp_user_timeout', '30000'],
    ],
  );
});
