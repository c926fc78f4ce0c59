import type { Test } from 'tap';
import t from 'tap';
import { openPostgres } from '../../../extensions/postgres/connection/pool.ts';
import { openQueues } from '../../../extensions/postgres/queue/storage.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Labels } from '../../../src/component/component.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { SharedQueue, SharedQueueStorage } from '../../../src/queue/shared-queue.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { processOn, until } from '../../helper/job-queue.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { databaseOf, queueDatabase } from '../../helper/queue-database.ts';
import { redisServer } from '../../helper/redis-server.ts';
import { relay } from '../../helper/relay.ts';
import type { RecordingMetrics } from '../../helper/settings.ts';
import { recordingLogger } from '../../helper/settings.ts';
import type { Sink } from '../../helper/sink.ts';

/** Calls that never end, in the middle of a job. Every batch is delivered all the same. */

t.setTimeout(300_000);

const postgres = await postgresDatabases(t);
/** Jobs that wait for a worker. */
const WAIT = '{tracectl}:traces:wait';
const SHORT = { step_timeout: '1s', delivery_timeout: '2s', progress_timeout: '3s' };

async function servers(t: Test) {
  const redis = await redisServer(t);
  const url = await migratedDatabase(postgres);
  const place = await queueDatabase(t, url);
  return { redis, url, place };
}

type Taking = SharedQueue['take'];

/** The storage with another `take` in its queues of workers. */
function withTake(storage: SharedQueueStorage, change: (take: Taking) => Taking) {
  return {
    withLease: storage.withLease,
    async openQueue(options) {
      const queue = await storage.openQueue(options);
      const take = change((...call) => queue.take(...call));
      return new Proxy(queue, {
        get(target, name) {
          if (name === 'take') return take;
          const value: unknown = Reflect.get(target, name);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
    },
  } satisfies SharedQueueStorage;
}

const never = (): Promise<never> => new Promise(() => {});

function idsOf(...sinks: readonly Sink[]): string[] {
  return [...new Set(sinks.flatMap((sink) => sink.ids()))].sort();
}

t.test('a take that never ends is tried again', async (t) => {
  const { redis, place } = await servers(t);
  let calls = 0;
  const storage = withTake(
    await place.open(systemClock),
    (take) =>
      (...call) =>
        ++calls === 1 ? never() : take(...call),
  );
  const one = await processOn(t, redis, storage);
  const { exporter } = await one.gateway();
  const { sink, settings } = await one.worker(SHORT);
  const batch = nativeBatch(1);
  await exporter.consume(batch);
  await sink.holds(1);
  t.same(sink.ids(), [batch.id]);
  t.match(
    settings.logger.lines.filter(({ level }) => level === 'warn'),
    [{ fields: { wait: 'take', boundMs: 1000 } }],
  );
  t.same(one.ended, []);
});

t.test('a batch whose take ends after its bound is delivered once', async (t) => {
  const { redis, place } = await servers(t);
  let calls = 0;
  const gate = Promise.withResolvers<void>();
  const storage = withTake(await place.open(systemClock), (take) => async (...call) => {
    calls++;
    const taken = await take(...call);
    if (calls === 1) await gate.promise;
    return taken;
  });
  const one = await processOn(t, redis, storage);
  const { exporter } = await one.gateway();
  const { sink } = await one.worker(SHORT);
  await exporter.consume(nativeBatch(1));
  await until(() => calls === 2);
  t.equal(sink.batches.length, 0);
  gate.resolve();
  await sink.holds(1);
  await until(async () => {
    const { rows } = await place.pool.query('SELECT count(*)::int AS n FROM queue_entries');
    return rows[0].n === 0;
  });
  t.equal(sink.batches.length, 1);
});

t.test('a worker whose takes all hang ends its process, and another one delivers', async (t) => {
  const { redis, place } = await servers(t);
  const one = await processOn(
    t,
    redis,
    withTake(await place.open(systemClock), () => never),
  );
  const { exporter, settings: gateway } = await one.gateway();
  await exporter.consume(nativeBatch(1, { receivedAt: Date.now() - 60_000 }));
  const { settings, stop } = await one.worker(SHORT);
  await until(() => one.ended.length > 0);
  t.same(one.ended, ['stalled']);
  const [line] = settings.logger.lines.filter(({ level }) => level === 'error');
  t.match(line, { message: /no progress/, fields: { deliveries: 0 } });
  t.ok(JSON.stringify(line?.fields['waits']).includes('"wait":"take"'), 'the log names the wait');
  const ages = one.health.report(true).components.flatMap(({ details }) => {
    const age = details?.['oldest_age_seconds'];
    return typeof age === 'number' && age >= 60 ? [age] : [];
  });
  t.equal(ages.length, 2, 'health of gateway and worker has the age of the oldest batch');
  const age = (metrics: RecordingMetrics, labels: Labels): number =>
    metrics.value('tracectl_queue_oldest_age_seconds', { ...labels, branch: 'jobs' });
  t.ok(age(gateway.metrics, { exporter: 'bullmq' }) >= 60);
  t.ok(age(settings.metrics, { receiver: 'bullmq' }) >= 60);
  const other = await processOn(t, redis, await place.open(systemClock));
  const { sink } = await other.worker(SHORT);
  await stop(100);
  await sink.holds(1);
});

t.test('a delivery that never ends is retried', async (t) => {
  const { redis, place } = await servers(t);
  const one = await processOn(t, redis, await place.open(systemClock));
  const { exporter } = await one.gateway();
  const { sink, settings } = await one.worker({ ...SHORT, concurrency: 1 });
  let attempts = 0;
  sink.behave(() => (++attempts === 1 ? never() : undefined));
  await exporter.consume(nativeBatch(1));
  await sink.holds(1);
  t.equal(attempts, 2);
  const waits = settings.logger.lines.map(({ fields }) => fields['wait']);
  t.ok(waits.includes('delivery to traces/sink'));
});

t.test('a job that finds no room returns to the queue', async (t) => {
  const { redis, place } = await servers(t);
  const one = await processOn(t, redis, await place.open(systemClock));
  const { exporter } = await one.gateway();
  const full = { ...SHORT, delivery_timeout: '1h', concurrency: 1 };
  const { sink, settings } = await one.worker(full);
  const gate = Promise.withResolvers<void>();
  let attempts = 0;
  sink.behave(() => {
    // The first failure ends the job of the batch; its retry has no job.
    if (++attempts === 1) throw new RetryableError('away', 'the exporter is away');
    return gate.promise;
  });
  await exporter.consume(nativeBatch(1));
  await until(() => attempts === 2);
  await exporter.consume(nativeBatch(1));
  const hasReturned = () =>
    settings.logger.lines.some(({ fields }) => fields['wait'] === 'wait for room');
  await until(hasReturned);
  t.equal(sink.batches.length, 0);
  gate.resolve();
  await sink.holds(2);
});

t.test('delivers while the Redis connections of one worker never answer', async (t) => {
  const { redis, place } = await servers(t);
  const path = await relay(t, redis.port);
  const cut = await processOn(
    t,
    { url: `redis://127.0.0.1:${path.port}` },
    await place.open(systemClock),
  );
  const other = await processOn(t, redis, await place.open(systemClock));
  const { exporter } = await other.gateway();
  const first = await cut.worker({ ...SHORT, concurrency: 2 });
  const gate = Promise.withResolvers<void>();
  let begun = 0;
  first.sink.behave(() => {
    begun++;
    return gate.promise;
  });
  const batches = Array.from({ length: 6 }, () => nativeBatch(1));
  for (const batch of batches) await exporter.consume(batch);
  await until(() => begun >= 2);
  path.swallow(true);
  const second = await other.worker(SHORT);
  gate.resolve();
  await until(() => idsOf(first.sink, second.sink).length === 6);
  t.same(idsOf(first.sink, second.sink), batches.map(({ id }) => id).sort());
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
});

t.test('a worker whose store is away gives a job back before it pauses', async (t) => {
  const { redis, place } = await servers(t);
  let calls = 0;
  let isAway = true;
  const storage = withTake(await place.open(systemClock), (take) => async (...call) => {
    calls++;
    if (isAway) throw new RetryableError('storage_failed', 'Postgres is away.');
    return take(...call);
  });
  const one = await processOn(t, redis, storage);
  const { exporter } = await one.gateway();
  const { sink } = await one.worker({ ...SHORT, concurrency: 1 });
  const batch = nativeBatch(1);
  await exporter.consume(batch);
  await until(() => calls > 0);
  await until(async () => (await redis.client.llen(WAIT)) === 1);
  t.equal(calls, 1, 'another worker can take it during the pause');
  isAway = false;
  await sink.holds(1);
  t.same(sink.ids(), [batch.id]);
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
});

t.test('delivers while the Postgres connections of one worker never answer', async (t) => {
  const { redis, url, place } = await servers(t);
  const path = await relay(t, Number(new URL(url).port));
  const relayed = new URL(url);
  relayed.port = `${path.port}`;
  const pool = await openPostgres({
    ...{ url: relayed.href, maxConnections: 4, connectTimeout: 500, queryTimeout: 500 },
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => pool.close());
  const storage = await openQueues(databaseOf(pool), systemClock, recordingLogger(), 800);
  t.teardown(() => storage.crash());
  const { rows: holders } = await place.pool.query('SELECT id FROM queue_holders');
  t.equal(holders.length, 1, 'the worker that is cut');
  const cut = await processOn(t, redis, storage);
  const other = await processOn(t, redis, await place.open(systemClock));
  const { exporter } = await other.gateway();
  const first = await cut.worker({ ...SHORT, concurrency: 2 });
  const gate = Promise.withResolvers<void>();
  let begun = 0;
  first.sink.behave(() => {
    begun++;
    return gate.promise;
  });
  const batches = Array.from({ length: 6 }, () => nativeBatch(1));
  for (const batch of batches) await exporter.consume(batch);
  await until(() => begun >= 2);
  path.swallow(true);
  const second = await other.worker(SHORT);
  gate.resolve();
  // The leases of the cut worker would last for another 20 s.
  await place.pool.query('UPDATE queue_holders SET expires_at = 0 WHERE id = $1', [holders[0].id]);
  await until(async () => {
    const { rows } = await place.pool.query('SELECT count(*)::int AS n FROM queue_entries');
    return rows[0].n === 0;
  });
  t.same(idsOf(first.sink, second.sink), batches.map(({ id }) => id).sort());
  t.same(cut.ended, [], 'an outage of Postgres is no hang');
});

t.test('delivers after a freeze of Redis in the middle of jobs', async (t) => {
  const { redis, place } = await servers(t);
  const one = await processOn(t, redis, await place.open(systemClock));
  const { exporter } = await one.gateway();
  const { sink } = await one.worker({ ...SHORT, concurrency: 2 });
  let begun = 0;
  const gate = Promise.withResolvers<void>();
  sink.behave(() => {
    begun++;
    return gate.promise;
  });
  const batches = Array.from({ length: 6 }, () => nativeBatch(1));
  for (const batch of batches) await exporter.consume(batch);
  await until(() => begun >= 2);
  redis.freeze();
  t.teardown(() => redis.thaw());
  gate.resolve();
  await sink.holds(2);
  await new Promise((resolve) => setTimeout(resolve, 5000));
  redis.thaw();
  await until(() => idsOf(sink).length === 6);
  t.same(one.ended, [], 'an outage of Redis is no hang');
});
