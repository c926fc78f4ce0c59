import t from 'tap';
import {
  ADMIT_KEY,
  CANCEL,
  counterKeys,
  OVERDUE,
  RECOUNT,
} from '../../../processors/quotas/scripts.ts';
import { redisServer } from '../../helper/redis-server.ts';

const { client } = await redisServer(t);
const { state, month, hour, leases, reserved } = counterKeys((_, name) => `{o}:${name}`, 'o', {
  month: 1,
  hour: 2,
});

const run = (script: string, keys: readonly string[], args: readonly (string | number)[]) =>
  client.eval(script, keys.length, ...keys, ...args);

/** Events of the organization and of the project. */
const counted = async () => [await client.hget(month, 'o'), await client.hget(month, 'p')];

t.beforeEach(async () => {
  await client.flushall();
  await client.hset(month, { o: 10, p: 10 });
  await client.hset(hour, { o: 100, p: 100 });
});

t.test('a reservation is cancelled once', async (t) => {
  await client.hset(reserved, 'batch', 'p 1 2 3 30');
  await client.zadd(leases, 1, 'batch');
  const cancel = () => run(CANCEL, [leases, reserved, month, hour], ['batch', 'p', 3, 30]);
  t.equal(await cancel(), 1);
  t.same(await counted(), ['7', '7']);
  t.equal(await cancel(), 0);
  t.same(await counted(), ['7', '7']);
  t.same(await client.hgetall(hour), { o: '70', p: '70' });
  t.equal(await client.exists(leases, reserved), 0);
});

t.test('a batch is counted once, in the epoch that lacks it', async (t) => {
  const server = /master_replid:(\w+)/.exec(await client.info('replication'))?.[1] ?? '';
  const recount = (epoch: number) =>
    run(RECOUNT, [state, month, hour, leases, reserved], [epoch, 'batch', 'p', 1, 2, 3, 30, 1000]);
  t.equal(await recount(5), 'missing', 'no counters');
  await client.hset(state, { epoch: 5, server: 'before' });
  t.equal(await recount(5), 'missing', 'of a server that may have lost changes');
  await client.hset(state, { epoch: 5, server });
  t.equal(await recount(6), 'missing');
  t.equal(await recount(4), 'counted', 'the later epoch has it from the ledger');
  t.same(await counted(), ['10', '10']);
  t.equal(await recount(5), 'counted');
  t.equal(await recount(5), 'counted');
  t.same(await counted(), ['13', '13']);
  t.equal(await client.hget(reserved, 'batch'), 'p 1 2 3 30');
});

t.test('a clock of Redis that was ahead does not refuse the requests of a key', async (t) => {
  const [rate, inFlight] = ['{k}:rate', '{k}:in-flight'];
  const [interval, tolerance, most, longest] = [10e6, 20e6, 1, 120_000];
  const admit = (id: string) =>
    run(ADMIT_KEY, [rate, inFlight], [interval, tolerance, most, longest, id]);
  const ahead = (Date.now() + 400 * 24 * 3_600_000) * 1000;
  await client.zadd(inFlight, ahead, 'lost');
  t.same(await admit('a'), [0]);
  t.same(await admit('b'), [-1], 'a request in flight counts');
  await client.del(inFlight);
  await client.set(rate, ahead);
  const [wait] = (await admit('c')) as number[];
  t.equal(wait, interval, 'as behind a full burst');
});

t.test('a clock of Redis that was ahead does not keep a reservation until then', async (t) => {
  const longest = 3_600_000;
  const overdue = () => run(OVERDUE, [leases, reserved], [10, 30_000, longest]);
  const ends = async (batch: string) => Number(await client.zscore(leases, batch));
  await client.hset(reserved, { dead: 'p 1 2 3 30', recounted: 'p 1 2 4 40' });
  const within = Date.now() + longest - 60_000;
  await client.zadd(leases, Date.now() + 400 * 24 * 3_600_000, 'dead', within, 'recounted');
  t.same(await overdue(), [], 'a process that lives has the longest time to settle it');
  t.ok((await ends('dead')) <= Date.now() + longest);
  t.equal(await ends('recounted'), within);
  await client.zincrby(leases, -longest, 'dead');
  t.same(await overdue(), ['dead', 'p 1 2 3 30']);
});
