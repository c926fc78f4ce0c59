import t from 'tap';
import { pointerTo } from '../../../src/bullmq/job-data.ts';
import { openJobQueue } from '../../../src/bullmq/job-queue.ts';
import { storedQueueName } from '../../../src/bullmq/names.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { processOn, until } from '../../helper/job-queue.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { queueDatabase } from '../../helper/queue-database.ts';
import { redisServer } from '../../helper/redis-server.ts';
import { sentinelSetup } from '../../helper/sentinels.ts';
import { createSink } from '../../helper/sink.ts';

const postgres = await postgresDatabases(t);

/** A Redis, a store and a process that uses both. */
async function stored(t: Test) {
  const redis = await redisServer(t);
  const place = await queueDatabase(t, await migratedDatabase(postgres));
  const queues = await place.open(systemClock);
  const one = await processOn(t, redis, queues);
  const options = { name: storedQueueName('traces'), branches: ['jobs'], maxBytes: 1e9 };
  return { redis, place, one, openQueue: () => queues.openQueue(options) };
}
type Test = Parameters<typeof queueDatabase>[0];

t.test(
  'with a store: delivers accepted batches to a worker, and leaves no job or entry',
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
    t.pass('no job and no entry is left');
  },
);

t.test(
  'with a store: batches that are accepted together share a job, and fail alone',
  async (t) => {
    const { redis, one } = await stored(t);
    const { exporter } = await one.gateway();
    const batches = Array.from({ length: 20 }, () => nativeBatch(1));
    await Promise.all(batches.map((batch) => exporter.consume(batch)));
    await until(async () => (await redis.client.llen('{tracectl}:traces:wait')) > 0);
    t.ok((await redis.client.llen('{tracectl}:traces:wait')) < 20, 'fewer jobs than batches');
    const poison = batches[7]?.id;
    const sink = createSink((batch) => {
      if (rawOf(batch).id === poison) throw new PermanentError('unreadable', 'it cannot be read');
    });
    await one.worker({}, [{ exporterId: 'sink', consume: sink.consume }]);
    await sink.holds(19);
    t.same(
      sink.ids().sort(),
      batches
        .map(({ id }) => id)
        .filter((id) => id !== poison)
        .sort(),
    );
    const queue = one.queues.all.get('bullmq');
    await until(async () => (await queue?.deadLetters())?.length === 1);
    t.match(await queue?.deadLetters(), [{ batchId: poison, reason: { code: 'unreadable' } }]);
    await until(async () => (await redis.client.keys('*:e-*')).length === 0);
  },
);

t.test('with a store: a job of several batches delivers those that still wait', async (t) => {
  const { one, openQueue } = await stored(t);
  const { exporter } = await one.gateway({ sweep_interval: '1h' });
  const batches = [nativeBatch(1), nativeBatch(1), nativeBatch(1)] as const;
  const [first, second, third] = batches.map(({ id }) => id);
  const { sink } = await one.worker();
  await exporter.consume(batches[0]);
  await sink.holds(1);
  // As a gateway leaves them whose process ended before it announced them.
  const store = await openQueue();
  await store.append(batches[1]);
  await store.append(batches[2]);
  const jobs = await openJobQueue(one.redis, 'traces');
  await jobs.add('any', pointerTo([first ?? '', second ?? '', 'unknown', third ?? '']));
  await sink.holds(3);
  t.same(sink.ids().sort(), [first, second, third].sort());
  t.same([...(await jobs.announced(0, 10))], []);
});

t.test('reads the batches that jobs announce, of older gateways too', async (t) => {
  const { one } = await stored(t);
  const jobs = await openJobQueue(one.redis, 'traces');
  await jobs.add('a', { batch: 'a' });
  await jobs.add('b', pointerTo(['b', 'c']));
  await jobs.add('d', pointerTo(['d']));
  t.same([...(await jobs.announced(0, 10))].sort(), ['a', 'b', 'c', 'd']);
  t.same([...(await jobs.announced(1, 1))].sort(), ['b', 'c']);
});

t.test('with a store: loses no batch in a FLUSHALL', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway();
  const batches = Array.from({ length: 30 }, () => nativeBatch(1));
  for (const batch of batches) await exporter.consume(batch);
  await redis.client.flushall();
  const { sink } = await one.worker();
  await sink.holds(30);
  t.equal(new Set(sink.ids()).size, 30);
});

t.test('with a store: delivers every batch after Redis lost any single key', async (t) => {
  const { redis, one } = await stored(t);
  const keys = ['wait', 'id', 'meta', 'marker', 'events', 'stalled-check', 'the jobs', 'one job'];
  const delivered: Promise<void>[] = [];
  for (const [i, dropped] of keys.entries()) {
    const queue = `q${i}`;
    const { exporter } = await one.gateway({ queue });
    const batches = Array.from({ length: 3 }, () => nativeBatch(1));
    for (const [sent, batch] of batches.entries()) {
      await exporter.consume(batch);
      await until(async () => (await redis.client.llen(`{tracectl}:${queue}:wait`)) === sent + 1);
    }
    const jobs = await redis.client.keys(`*:${queue}:e-*`);
    const names = dropped === 'the jobs' ? jobs : [`{tracectl}:${queue}:${dropped}`];
    await redis.client.del(...(dropped === 'one job' ? jobs.slice(1) : names));
    const { sink } = await one.worker({ queue });
    const all = sink.holds(3).then(() => {
      t.same(sink.ids().sort(), batches.map(({ id }) => id).sort(), dropped);
    });
    delivered.push(all);
  }
  // Each sweeper takes some seconds; all run at the same time.
  await Promise.all(delivered);
});

t.test('with a store: running workers go on after a FLUSHALL', async (t) => {
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

t.test('with a store: loses no batch in a failover of Redis, without a restart', async (t) => {
  const setup = await sentinelSetup(t, { count: 1 });
  const place = await queueDatabase(t, await migratedDatabase(postgres));
  const addresses = setup.sentinels.map(({ address }) => address);
  const one = await processOn(
    t,
    { url: 'redis://named-by-the-sentinel' },
    await place.open(systemClock),
    { sentinel: { name: 'main', addresses } },
  );
  const { exporter } = await one.gateway();
  const { sink } = await one.worker();
  const sent: string[] = [];
  const send = async (): Promise<void> => {
    const batch = nativeBatch(1);
    await exporter.consume(batch);
    sent.push(batch.id);
  };
  for (let i = 0; i < 10; i++) await send();
  await setup.primary.kill();
  const taken = setup.isPrimary(setup.replica);
  for (let i = 0; i < 20; i++) await send();
  await taken;
  for (let i = 0; i < 10; i++) await send();
  await until(() => new Set(sink.ids()).size === 40);
  t.same([...new Set(sink.ids())].sort(), sent.sort());
});

t.test('with a store: adds a job of less than 1 KiB for a large body', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway();
  await exporter.consume(nativeBatch(1, { body: Buffer.alloc(2_000_000, 65) }));
  await until(async () => (await redis.client.keys('*:e-*')).length === 1);
  const [key = ''] = await redis.client.keys('*:e-*');
  t.ok(((await redis.client.dumpBuffer(key))?.length ?? 0) < 1024);
});

t.test('with a store: accepts batches while Redis is away, and delivers them later', async (t) => {
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
    'it stays ready',
  );
  t.ok(
    of.some(({ healthy }) => healthy === false),
    'and is unhealthy',
  );
  await redis.start();
  await sink.holds(10);
  t.equal(new Set(sink.ids()).size, 10);
});

t.test('with a store: retries through an outage of an exporter', async (t) => {
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
  t.equal(good.ids().length, 12, 'the other exporter got each batch once');
  t.equal(new Set(bad.ids()).size, 12);
});

t.test('with a store: keeps an undeliverable batch as a dead letter, and replays it', async (t) => {
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
});

t.test('with a store: another worker delivers the entries of a dead worker', async (t) => {
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

t.test('with a store: delivers a batch once if its job runs again', async (t) => {
  const { redis, one } = await stored(t);
  const { exporter } = await one.gateway({ sweep_interval: '1h' });
  const { sink } = await one.worker();
  const batch = nativeBatch(1);
  await exporter.consume(batch);
  await sink.holds(1);
  const jobs = await openJobQueue(one.redis, 'traces');
  for (let i = 0; i < 3; i++) {
    await jobs.add(batch.id, { batch: batch.id });
    await until(async () => (await jobs.count()) === 0);
  }
  t.equal(sink.batches.length, 1);
  t.equal((await redis.client.keys('*failed*')).length, 0);
});
