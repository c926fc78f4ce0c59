import t from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { processOn, until } from '../../helper/job-queue.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { queueDatabase } from '../../helper/queue-database.ts';
import { redisServer } from '../../helper/redis-server.ts';
import { createSink } from '../../helper/sink.ts';

const postgres = await postgresDatabases(t);

/** A Redis, a store, and a process on both. */
async function stored(t: Test) {
  const redis = await redisServer(t);
  const place = await queueDatabase(t, await postgres.database());
  const one = await processOn(t, redis, await place.open(systemClock));
  return { redis, place, one };
}
type Test = Parameters<typeof queueDatabase>[0];

t.test(
  'with a store: what a gateway accepts reaches a worker, and nothing stays behind',
  async (t) => {
    const { redis, place, one } = await stored(t);
    const { exporter } = await one.gateway();
    const { sink } = await one.worker();
    const batches = Array.from({ length: 20 }, () => nativeBatch(2));
    await Promise.all(batches.map((batch) => exporter.consume(batch)));
    await sink.holds(20);
    t.same(sink.ids().sort(), batches.map(({ id }) => id).sort());
    await until(async () => (await redis.client.keys('*:e-*')).length === 0);
    await until(async () => {
      const { rows } = await place.pool.query('SELECT count(*)::int AS n FROM queue_entries');
      return rows[0].n === 0;
    });
    t.pass('neither a job nor an entry is left');
  },
);

t.test('with a store: FLUSHALL loses nothing', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway();
  const batches = Array.from({ length: 30 }, () => nativeBatch(1));
  for (const batch of batches) await exporter.consume(batch);
  await redis.client.flushall();
  const { sink } = await one.worker();
  await sink.holds(30);
  t.equal(new Set(sink.ids()).size, 30);
});

t.test('with a store: whatever single key Redis drops, all is delivered (M2)', async (t) => {
  const { redis, one } = await stored(t);
  const keys = ['wait', 'id', 'meta', 'marker', 'events', 'stalled-check', 'the jobs', 'one job'];
  const delivered = keys.map(async (dropped, i) => {
    const queue = `q${i}`;
    const { exporter } = await one.gateway({ queue });
    const batches = Array.from({ length: 3 }, () => nativeBatch(1));
    for (const batch of batches) await exporter.consume(batch);
    await until(async () => (await redis.client.llen(`{tracectl}:${queue}:wait`)) === 3);
    const jobs = await redis.client.keys(`*:${queue}:e-*`);
    const names = dropped === 'the jobs' ? jobs : [`{tracectl}:${queue}:${dropped}`];
    await redis.client.del(...(dropped === 'one job' ? jobs.slice(1) : names));
    const { sink } = await one.worker({ queue });
    await sink.holds(3);
    t.same(sink.ids().sort(), batches.map(({ id }) => id).sort(), dropped);
  });
  await Promise.all(delivered);
});

t.test('with a store: workers that run go on after a FLUSHALL', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway();
  const sinks = [(await one.worker()).sink, (await one.worker()).sink];
  const ids = () => new Set(sinks.flatMap((sink) => sink.ids()));
  const sent: string[] = [];
  for (let i = 0; i < 60; i++) {
    const batch = nativeBatch(1);
    await exporter.consume(batch);
    sent.push(batch.id);
    if (i % 20 === 10) await redis.client.flushall();
  }
  await until(() => ids().size === 60);
  t.same([...ids()].sort(), sent.sort());
});

t.test('with a store: a job is a pointer, however large the body', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway();
  await exporter.consume(nativeBatch(1, { body: Buffer.alloc(2_000_000, 65) }));
  await until(async () => (await redis.client.keys('*:e-*')).length === 1);
  const [key = ''] = await redis.client.keys('*:e-*');
  t.ok(((await redis.client.dumpBuffer(key))?.length ?? 0) < 1024);
});

t.test('with a store: without Redis all is accepted, and delivered when it is back', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway();
  const { sink } = await one.worker();
  await redis.kill();
  await until(() => !one.redis.state().connected);
  const batches = Array.from({ length: 10 }, () => nativeBatch(1));
  await Promise.all(batches.map((batch) => exporter.consume(batch)));
  const of = one.health.report(true).components.filter(({ id }) => id === 'bullmq');
  t.ok(
    of.every(({ ready }) => ready !== false),
    'it stays in rotation',
  );
  t.ok(
    of.some(({ healthy }) => healthy === false),
    'and says that it is not well',
  );
  await redis.start();
  await sink.holds(10);
  t.equal(new Set(sink.ids()).size, 10);
});

t.test('with a store: an outage of an exporter uses up nothing', async (t) => {
  const { one } = await stored(t);
  const { exporter } = await one.gateway();
  let fails = true;
  let tries = 0;
  const good = createSink();
  const bad = createSink(() => {
    tries++;
    if (fails) throw new RetryableError('away', 'it is away');
  });
  await one.worker({ concurrency: 2 }, [
    { exporterId: 'good', consume: good.consume },
    { exporterId: 'bad', consume: bad.consume },
  ]);
  const batches = Array.from({ length: 12 }, () => nativeBatch(1));
  for (const batch of batches) await exporter.consume(batch);
  await good.holds(12);
  await until(() => tries > 15);
  fails = false;
  await bad.holds(12);
  t.equal(good.ids().length, 12, 'the other exporter has each batch once');
  t.equal(new Set(bad.ids()).size, 12);
});

t.test(
  'with a store: data that nobody can take goes to the dead letter, and comes back',
  async (t) => {
    const { one } = await stored(t);
    const { exporter } = await one.gateway();
    const { sink } = await one.worker();
    sink.behave(() => {
      throw new PermanentError('unreadable', 'it cannot be read');
    });
    const batch = nativeBatch(3);
    await exporter.consume(batch);
    const queue = one.queues.all.get('bullmq');
    await until(async () => (await queue?.deadLetters())?.length === 1);
    t.match(await queue?.deadLetters(), [
      { branch: 'traces/sink', batchId: batch.id, items: 3, reason: { code: 'unreadable' } },
    ]);
    sink.behave('ok');
    t.equal(await queue?.replay('all'), 1);
    await sink.holds(1);
    t.same(sink.ids(), [batch.id]);
  },
);

t.test('with a store: what a dead worker held another one delivers', async (t) => {
  const { redis, place } = await stored(t);
  const dying = await place.open(systemClock);
  const first = await processOn(t, redis, dying);
  const { exporter } = await first.gateway();
  let begun = (): void => {};
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  await first.worker({}, [
    {
      exporterId: 'sink',
      consume: () => {
        begun();
        return new Promise(() => {});
      },
    },
  ]);
  await exporter.consume(nativeBatch(1));
  await hasBegun;
  dying.crash();
  await place.pool.query(
    'UPDATE queue_holders SET expires_at = 0 WHERE id IN (SELECT holder FROM queue_entries)',
  );
  const second = await processOn(t, redis, await place.open(systemClock));
  const { sink } = await second.worker();
  await sink.holds(1);
  t.equal(sink.batches.length, 1);
});

t.test('with a store: a job that runs again finds nothing to do', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway({ sweep_interval: '1h' });
  const { sink } = await one.worker();
  const batch = nativeBatch(1);
  await exporter.consume(batch);
  await sink.holds(1);
  const { openJobQueue } = await import('../../../src/bullmq/job-queue.ts');
  const jobs = await openJobQueue(one.redis, 'traces');
  for (let i = 0; i < 3; i++) {
    await jobs.add(batch.id, { batch: batch.id });
    await until(async () => (await jobs.count()) === 0);
  }
  t.equal(sink.batches.length, 1);
  t.equal((await redis.client.keys('*failed*')).length, 0);
});
