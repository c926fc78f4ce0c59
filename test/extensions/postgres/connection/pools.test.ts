import t, { type Test } from 'tap';
import { config } from '../../../../extensions/postgres/config.ts';
import type { PostgresPools, Purpose } from '../../../../extensions/postgres/connection/pools.ts';
import { openPools } from '../../../../extensions/postgres/connection/pools.ts';
import { systemClock } from '../../../../src/component/clock.ts';
import { postgresDatabases } from '../../../helper/postgres-server.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const server = await postgresDatabases(t);
const PURPOSES: readonly Purpose[] = [
  ...(['accept', 'write', 'read', 'verify', 'rebuild', 'housekeeping'] as const),
];

async function opened(t: Test, more: object = {}): Promise<PostgresPools> {
  const { timeouts } = config.parse({ url: 'postgres://x' });
  const pools = await openPools({
    ...{ url: await server.database(), connectTimeout: 1000, maxConnections: 2 },
    ...{ readConnections: 2, timeouts: { ...timeouts, ...more } },
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => pools.close());
  return pools;
}

t.test('each purpose has its time-out at the server', async (t) => {
  const pools = await opened(t, { accept: 1800, verify: 60_000 });
  const found = await Promise.all(
    PURPOSES.map(async (purpose) => {
      const { rows } = await pools[purpose].query('SHOW statement_timeout');
      return [purpose, rows[0]?.statement_timeout];
    }),
  );
  t.same(Object.fromEntries(found), {
    ...{ accept: '1800ms', write: '5s', read: '10s' },
    ...{ verify: '1min', rebuild: '30s', housekeeping: '30s' },
  });
  t.equal(pools.usage().open, 6);
});

t.test('a process that freezes inside a transaction holds its locks for at most 4 s', async (t) => {
  const pools = await opened(t, { accept: 1999, write: 2000, read: 2001 });
  const idle = async (purpose: Purpose) => {
    const { rows } = await pools[purpose].query('SHOW idle_in_transaction_session_timeout');
    return rows[0]?.idle_in_transaction_session_timeout;
  };
  const purposes: readonly Purpose[] = ['accept', 'write', 'read', 'verify'];
  t.same(await Promise.all(purposes.map(idle)), ['3998ms', '4s', '4s', '4s']);
});

t.test('a reader scans no table that has an index, and takes one process', async (t) => {
  const pools = await opened(t);
  const planning = async (purpose: Purpose) => {
    const { rows } = await pools[purpose].query(`SELECT name, setting FROM pg_settings WHERE name IN
      ('enable_seqscan', 'jit', 'max_parallel_workers_per_gather')`);
    return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
  };
  const narrow = { enable_seqscan: 'off', jit: 'off', max_parallel_workers_per_gather: '0' };
  t.same(await planning('read'), narrow);
  t.not((await planning('write')).enable_seqscan, 'off', 'other statements may scan a table');
});

t.test('a read that takes too long is no outage, and says what to do', async (t) => {
  const pools = await opened(t, { read: 2000 });
  await t.rejects(pools.read.query('SELECT pg_sleep(30)'), {
    name: 'RetryableError',
    code: 'query_timeout',
    message: 'Finding the answer took longer than 2 s. Narrow the time range or the filter.',
  });
  await t.rejects(
    pools.read.transaction((client) => client.query('SELECT pg_sleep(30)')),
    { code: 'query_timeout' },
    'in a transaction too',
  );
  t.equal(pools.outage(), undefined);
  t.same((await pools.read.query('SELECT 1 AS n')).rows, [{ n: 1 }]);
  await t.rejects(pools.read.query('SELECT 1 / 0'), { code: 'storage_refused' });
});

t.test('reads that use all their connections hold up no accepting', async (t) => {
  const pools = await opened(t, { read: 3000 });
  const reads = [1, 2, 3].map(() => pools.read.query('SELECT pg_sleep(30)').catch(() => 'ended'));
  t.same((await pools.accept.query('SELECT 1 AS n')).rows, [{ n: 1 }]);
  t.equal(await Promise.race([...reads, Promise.resolve('reading')]), 'reading');
  t.same(await Promise.all(reads), ['ended', 'ended', 'ended']);
});

t.test('an answer in one pool ends the outage that another one met', async (t) => {
  const pools = await opened(t);
  await t.rejects(pools.read.query('SELECT pg_terminate_backend(pg_backend_pid())'), {
    code: 'storage_failed',
  });
  t.match(pools.outage(), { isAway: true });
  await pools.accept.query('SELECT 1');
  t.equal(pools.outage(), undefined);
});

t.test('takes time-outs from 50 ms, and those of accepting up to 60 s', (t) => {
  const parse = (timeouts: object) => config.safeParse({ url: 'postgres://x', timeouts }).success;
  t.ok(parse({ accept: '50ms', read: '50ms' }));
  t.notOk(parse({ accept: '49ms' }));
  t.notOk(parse({ read: '49ms' }));
  t.ok(parse({ accept: '60s', verify: '1h' }));
  t.notOk(parse({ accept: '60001ms' }));
  t.notOk(parse({ verify: '3600001ms' }));
  t.end();
});
