import { readFileSync } from 'node:fs';
import t from 'tap';
import { progressHealth } from '../../../receivers/bullmq/health.ts';
import { startWorker } from '../../../receivers/bullmq/worker.ts';
import { openJobQueue } from '../../../src/bullmq/job-queue.ts';
import { jobIdOf } from '../../../src/bullmq/names.ts';
import { openRedisQueue } from '../../../src/bullmq/redis-queue.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { deferred } from '../../../src/component/deferred.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { processOn, until } from '../../helper/job-queue.ts';
import { redisCluster, redisServer } from '../../helper/redis-server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { createSink } from '../../helper/sink.ts';
import { workerParts } from '../../helper/worker-parts.ts';

/** Without a store: jobs hold the payloads. */

t.test('delivers accepted bytes unchanged to a worker, and leaves no job', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  t.equal(exporter.idempotency, undefined, 'no idempotency records');
  const { sink } = await one.worker();
  const batch = nativeBatch(2, { body: Buffer.from([0, 255, 128, 10]), encoding: 'zstd' });
  await exporter.consume(batch);
  await sink.holds(1);
  t.match(sink.batches[0], batch);
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
});

t.test('refuses whole requests with redis_full while Redis is full', async (t) => {
  const redis = await redisServer(t, ['--maxmemory', '5mb']);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  const batches = Array.from({ length: 60 }, () =>
    nativeBatch(1, { body: Buffer.alloc(100_000, 65) }),
  );
  const results = await Promise.allSettled(batches.map((batch) => exporter.consume(batch)));
  const refused = results.flatMap((result) =>
    result.status === 'rejected' ? [result.reason] : [],
  );
  t.ok(refused.length > 0 && refused.length < 60, `${refused.length} of 60 are refused`);
  t.ok(refused.every(({ code, retryAfterMs }) => code === 'redis_full' && retryAfterMs > 0));
  await redis.config('maxmemory', '0');
  const { sink } = await one.worker();
  const accepted = batches.filter((_, i) => results[i]?.status === 'fulfilled').map(({ id }) => id);
  await sink.holds(accepted.length);
  t.same(sink.ids().sort(), accepted.sort(), 'every accepted batch arrives, and no other');
});

t.test('adds jobs again after Redis took a part of them, without duplicates', async (t) => {
  const redis = await redisServer(t, ['--maxmemory', '3mb']);
  const one = await processOn(t, redis);
  const jobs = await openJobQueue(one.redis, 'traces');
  const all = Array.from({ length: 60 }, (_, i) => ({
    batchId: `batch_${i}`,
    data: { batch: 'x'.repeat(50_000) },
  }));
  await t.rejects(jobs.addAll(all), { code: 'redis_full' });
  const half = await jobs.count();
  t.ok(half > 0 && half < 60, `${half} of 60 are there`);
  await redis.config('maxmemory', '0');
  await jobs.addAll(all);
  t.equal(await jobs.count(), 60);
  t.equal(await jobs.waiting(), 60);
});

t.test('is not ready and refuses requests while Redis may evict keys', async (t) => {
  const redis = await redisServer(t, ['--maxmemory-policy', 'allkeys-lru']);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  await t.rejects(exporter.consume(nativeBatch(1)), {
    code: 'redis_evicts',
    message: /maxmemory-policy is not noeviction\. Set it\.$/,
  });
  t.match(
    one.health.report(true).components.find(({ id }) => id === 'bullmq'),
    {
      ready: false,
      details: { maxmemory_policy: 'allkeys-lru' },
    },
  );
  t.same(await redis.client.keys('*:e-*'), []);
});

t.test('adds jobs for batch ids that BullMQ reserves', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const jobs = await openJobQueue(one.redis, 'traces');
  const ids = ['0', '0:1', 'a:b', 'meta', 'id', 'wait', '', '7', '\u0000', 'x'.repeat(3000)];
  for (const id of ids) await jobs.add(id, { batch: id });
  t.equal(await jobs.count(), ids.length);
  t.ok(ids.every((id) => /^e-[0-9a-f]{64}$/.test(jobIdOf(id))));
});

t.test('adds one job for the same batch twice', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  const batch = nativeBatch(1);
  await exporter.consume(batch);
  await exporter.consume(batch);
  const jobs = await openJobQueue(one.redis, 'traces');
  t.equal(await jobs.count(), 1);
});

t.test('runs a job twice after a lost lock, without a failure or a loss', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  let runs = 0;
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const consume = async (): Promise<void> => {
    runs++;
    if (runs <= 2) await held;
  };
  await one.worker({ lock_duration: '1s' }, [{ exporterId: 'sink', consume }]);
  await exporter.consume(nativeBatch(1));
  await until(() => runs === 1);
  // Removes the lock repeatedly, as a FLUSHALL or a long pause of the process does.
  await until(async () => {
    await redis.client.del(...(await redis.client.keys('*:lock')), 'none');
    return runs > 2;
  });
  release();
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
  t.equal(await redis.client.exists('{tracectl}:traces:failed'), 0, 'nothing failed');
});

t.test('a worker whose clock is ahead does not hold a delayed job up', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const jobs = await openJobQueue(one.redis, 'traces');
  const ends: string[] = [];
  const workerWith = (name: string, aheadMs: number, delay: number | undefined) =>
    startWorker({
      ...workerParts({ ...systemClock, now: () => Date.now() + aheadMs }, recordingLogger()),
      ...{ redis: one.redis, queue: 'traces', concurrency: 1, jobs },
      ...{ lockDuration: 60_000, stallTimeout: 60_000 },
      work: async () => {
        ends.push(name);
        return delay;
      },
    });
  const ahead = await workerWith('ahead', 90_000, 1000);
  await jobs.add('one', { batch: 'one' });
  await until(async () => ends.length === 1 && (await jobs.bull.getDelayedCount()) === 1);
  await ahead.stop(AbortSignal.timeout(500));
  const exact = await workerWith('exact', 0, undefined);
  t.teardown(() => exact.stop(AbortSignal.timeout(500)));
  await until(async () => (await jobs.count()) === 0);
  t.same(ends, ['ahead', 'exact']);
});

t.test('a job of a worker that is gone is done after the clock of Redis was ahead', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const jobs = await openJobQueue(one.redis, 'traces');
  await jobs.add('one', { batch: 'one' });
  const id = jobIdOf('one');
  const key = (name: string) => jobs.bull.toKey(name);
  await redis.client.lmove(key('wait'), key('active'), 'RIGHT', 'LEFT');
  const days = 400 * 24 * 3_600_000;
  await redis.client.set(key(`${id}:lock`), 'token', 'PX', days);
  await redis.client.set(key('stalled-check'), '1', 'PX', days);
  const done: string[] = [];
  const worker = await startWorker({
    ...workerParts(systemClock, recordingLogger()),
    ...{ redis: one.redis, queue: 'traces', concurrency: 1, jobs },
    ...{ lockDuration: 1000, stallTimeout: 60_000 },
    work: async (job) => void done.push(job.id ?? ''),
  });
  t.teardown(() => worker.stop(AbortSignal.timeout(500)));
  await until(() => done.length > 0);
  t.same(done, [id]);
});

t.test('leaves locks of jobs that last for up to an hour more', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const jobs = await openJobQueue(one.redis, 'traces');
  const [lock, look] = [jobs.bull.toKey('job:lock'), jobs.bull.toKey('stalled-check')];
  await redis.client.lpush(jobs.bull.toKey('active'), 'job');
  const lasting = async (ms: number) => {
    for (const key of [lock, look]) await redis.client.set(key, '1', 'PX', ms);
    await jobs.boundLocks(20_000);
    return [await redis.client.pttl(lock), await redis.client.pttl(look)].map(
      (left) => left > 20_000,
    );
  };
  t.same(await lasting(3_600_000 + 20_000), [true, true]);
  t.same(await lasting(3_600_000 + 80_000), [false, false]);
});

t.test('extends the lock of a job for the worker that holds it only', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const jobs = await openJobQueue(one.redis, 'traces');
  const held: [boolean, boolean][] = [];
  const worker = await startWorker({
    ...workerParts(systemClock, recordingLogger()),
    ...{ redis: one.redis, queue: 'traces', concurrency: 1, jobs },
    ...{ lockDuration: 60_000, stallTimeout: 60_000 },
    work: async ({ id = '', token = '' }) => {
      const before = await jobs.extendLock(id, token, 1000);
      await redis.client.del(...(await redis.client.keys('*:lock')));
      held.push([before, await jobs.extendLock(id, token, 1000)]);
      return undefined;
    },
  });
  t.teardown(() => worker.stop(AbortSignal.timeout(500)));
  await jobs.add('one', { batch: 'one' });
  await until(() => held.length > 0);
  t.same(held[0], [true, false]);
});

t.test('a worker that lost the lock of a job while it processed delivers nothing', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  let runs = 0;
  const delivered: number[] = [];
  const branch = { exporterId: 'sink', consume: async () => void delivered.push(runs) };
  await one.worker({ lock_duration: '1s' }, [branch], async (batch) => {
    if (++runs > 1) return batch;
    // As after a freeze: half of the lock's duration is over, and another worker may have the job.
    await new Promise((resolve) => setTimeout(resolve, 600));
    await redis.client.del(...(await redis.client.keys('*:lock')), 'none');
    return batch;
  });
  await exporter.consume(nativeBatch(1));
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
  t.same(delivered, [2]);
});

t.test('a job whose lock was lost while another exporter rests is delivered later', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  const [first, second] = [nativeBatch(1), nativeBatch(1)];
  let fails = true;
  const good = createSink();
  const bad = createSink(() => {
    if (!fails) return;
    fails = false;
    throw new RetryableError('away', 'it is away');
  });
  let isFrozen = false;
  await one.worker(
    { lock_duration: '1s', concurrency: 1, initial_interval: '3s', max_interval: '3s' },
    [
      { exporterId: 'good', consume: good.consume },
      { exporterId: 'bad', consume: bad.consume },
    ],
    async (batch) => {
      if (rawOf(batch).id !== second.id || isFrozen) return batch;
      isFrozen = true;
      await new Promise((resolve) => setTimeout(resolve, 600));
      await redis.client.del(...(await redis.client.keys('*:lock')), 'none');
      return batch;
    },
  );
  await exporter.consume(first);
  await until(() => !fails);
  await exporter.consume(second);
  await bad.holds(2);
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
  t.same(good.ids(), [first.id, second.id]);
});

t.test('retries through an outage of an exporter, without repeats for the other', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
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
  for (let i = 0; i < 8; i++) await exporter.consume(nativeBatch(1));
  await good.holds(8);
  await until(() => tries > 20);
  fails = false;
  await bad.holds(8);
  t.equal(good.batches.length, 8);
  t.equal(new Set(bad.ids()).size, 8);
});

t.test('keeps one dead letter of an undeliverable batch, and replays it', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter, settings } = await one.gateway();
  const good = createSink();
  const picky = createSink('permanent');
  await one.worker({}, [
    { exporterId: 'good', consume: good.consume },
    { exporterId: 'picky', consume: picky.consume },
  ]);
  const batch = nativeBatch(3);
  await exporter.consume(batch);
  const queue = one.queues.all.get('bullmq');
  await until(async () => (await queue?.deadLetters())?.length === 1);
  t.match(await queue?.deadLetters(), [
    { branch: 'traces/picky', batchId: batch.id, items: 3, reason: { code: 'test_permanent' } },
  ]);
  picky.behave('ok');
  t.equal(await queue?.replay('all'), 1);
  await picky.holds(1);
  t.same(picky.ids(), [batch.id]);
  t.equal(good.batches.length, 1, 'the other exporter got it once');
  t.same(await queue?.deadLetters(), []);
  t.strictSame(
    settings.metrics
      .names()
      .filter((name) => /queue|dead|quarantine/.test(name))
      .sort(),
    [
      'tracectl_dead_letter_entries',
      'tracectl_dead_letter_items',
      'tracectl_queue_dropped_items_total',
      'tracectl_queue_entries',
      'tracectl_queue_oldest_age_seconds',
    ],
    'a queue of jobs reports no number that Redis does not keep',
  );
});

t.test('keeps a dead letter whose replay fails again at once', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  let tries = 0;
  const picky = createSink(() => {
    tries++;
    throw new PermanentError('unreadable', 'it cannot be read');
  });
  await one.worker({}, [{ exporterId: 'picky', consume: picky.consume }]);
  const batch = nativeBatch(3);
  await exporter.consume(batch);
  const other = await processOn(t, redis);
  const queue = await openRedisQueue(other.redis, 'traces', systemClock, recordingLogger());
  t.teardown(() => queue.close());
  await until(async () => (await queue.deadLetters()).length === 1);
  const jobs = queue.jobs as { add: typeof queue.jobs.add };
  const add = jobs.add;
  // The process that replays is slower than the worker.
  jobs.add = async (...job) => {
    await add(...job);
    await until(async () => tries === 2 && (await redis.client.keys('*:e-*')).length === 0);
  };
  t.equal(await queue.replay('all'), 1);
  t.match(await queue.deadLetters(), [{ branch: 'traces/picky', batchId: batch.id, items: 3 }]);
  t.match(queue.stats(), { deadLetters: 1, deadLetterItems: 3 });
});

t.test('repeats no delivery to other exporters while a dead letter cannot be saved', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  const good = createSink();
  const picky = createSink('permanent');
  // The counter of dead letters is not a number, so that every script that adds one fails.
  const counter = one.redis.key('bullmq-dead', 'traces', 'last');
  await redis.client.set(counter, 'damaged');
  const { settings } = await one.worker({}, [
    { exporterId: 'good', consume: good.consume },
    { exporterId: 'picky', consume: picky.consume },
  ]);
  await exporter.consume(nativeBatch(1));
  const unsaved = () =>
    settings.logger.lines.filter(({ message }) => /^Dead letter could not be saved/.test(message));
  await until(() => unsaved().length >= 3);
  t.match(unsaved()[0]?.fields, { branch: 'traces/picky', err: { code: 'redis_failed' } });
  await redis.client.del(counter);
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
  t.equal((await one.queues.all.get('bullmq')?.deadLetters())?.length, 1);
  t.equal(good.batches.length, 1);
});

t.test('refuses requests while Redis is away, and accepts them after it is back', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  redis.freeze();
  await t.rejects(exporter.consume(nativeBatch(1)), { code: 'redis_failed' });
  await t.rejects(exporter.consume(nativeBatch(1)), { code: 'redis_failed' });
  redis.thaw();
  await until(() => one.redis.state().connected);
  await redis.kill();
  await t.rejects(exporter.consume(nativeBatch(1)), { code: 'redis_failed' });
  await redis.start();
  await until(() => one.redis.state().connected);
  await exporter.consume(nativeBatch(1));
});

t.test('loses no accepted batch when Redis with an append-only file is killed', async (t) => {
  const redis = await redisServer(t, ['--appendonly', 'yes', '--appendfsync', 'always']);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  const { sink } = await one.worker();
  const accepted: string[] = [];
  const send = async (): Promise<void> => {
    const batch = nativeBatch(1);
    await exporter.consume(batch).then(
      () => accepted.push(batch.id),
      () => {},
    );
  };
  const sending = Array.from({ length: 50 }, send);
  await redis.kill();
  await Promise.all(sending);
  await redis.start();
  await until(() => one.redis.state().connected);
  await send();
  await until(() => accepted.every((id) => sink.ids().includes(id)));
  t.ok(accepted.length > 0);
});

t.test('removes every byte of a deleted project from Redis, also under load', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  const sink = createSink((batch) => {
    const { tenant } = 'tenant' in batch ? batch : batch.source;
    if (tenant.projectId === 'proj_gone') throw new PermanentError('no', 'never');
  });
  await one.worker({}, [{ exporterId: 'sink', consume: sink.consume }]);
  const canary = Buffer.from('canary-in-the-coal-mine');
  const tenant = aTenant({ projectId: 'proj_gone' });
  const send = (count: number) =>
    Promise.allSettled(
      Array.from({ length: count }, () =>
        exporter.consume(nativeBatch(1, { body: canary, tenant })),
      ),
    );
  await send(30);
  const load = send(100);
  const queue = one.queues.all.get('bullmq');
  await queue?.removeProject('proj_gone');
  await load;
  await t.rejects(exporter.consume(nativeBatch(1, { tenant })), { code: 'unauthorized' });
  await until(async () => (await redis.client.keys('*:e-*')).length === 0);
  const encoded = canary.toString('base64').slice(0, 20);
  for (const key of await redis.client.keys('*')) {
    const dump = await redis.client.dumpBuffer(key);
    t.notOk(dump?.includes(encoded), key);
  }
  t.same(await queue?.deadLetters(), []);
  await exporter.consume(nativeBatch(1));
  await sink.holds(1);
});

t.test('keeps jobs, dead letters and deleted projects in one slot of a Cluster', async (t) => {
  const server = await redisCluster(t);
  const one = await processOn(t, server, undefined, { cluster: true });
  await until(() => one.redis.state().connected);
  const { exporter } = await one.gateway();
  await exporter.consume(nativeBatch(2));
  const { sink } = await one.worker();
  await sink.holds(1);
  sink.behave('permanent');
  await exporter.consume(nativeBatch(1));
  const queue = one.queues.all.get('bullmq');
  await until(async () => (await queue?.deadLetters())?.length === 1);
  await queue?.removeProject('proj_test');
  t.same(await queue?.deadLetters(), []);
  await t.rejects(exporter.consume(nativeBatch(1)), { code: 'unauthorized' });
});

t.test('needs no other permissions in Redis than the README lists', async (t) => {
  const server = await redisServer(t);
  const readme = readFileSync('extensions/redis/README.md', 'utf8');
  const [, rules = ''] = /ACL SETUSER tracectl (.*)/.exec(readme) ?? [];
  await server.client.call('ACL', 'SETUSER', 'tracectl', ...rules.split(' '));
  const url = server.url.replace('redis://', 'redis://tracectl:password@');
  const one = await processOn(t, { url });
  const { exporter } = await one.gateway();
  const picky = createSink('permanent');
  await one.worker({}, [{ exporterId: 'picky', consume: picky.consume }]);
  await exporter.consume(nativeBatch(1));
  const queue = one.queues.all.get('bullmq');
  await until(async () => (await queue?.deadLetters())?.length === 1);
  picky.behave('ok');
  t.equal(await queue?.replay('all'), 1);
  await picky.holds(1);
  picky.behave('retryable');
  await exporter.consume(nativeBatch(1));
  await queue?.removeProject('proj_other');
  picky.behave('ok');
  await picky.holds(2);
  const heard = new Promise((resolve) => one.redis.subscribe('keys', resolve));
  while ((await one.redis.run((client) => client.publish(one.redis.key('keys'), 'a'))) === 0);
  t.equal(await heard, 'a');
  t.same(await server.client.call('ACL', 'LOG'), [], 'no command was denied');
});

t.test('replaces a connected worker that takes no jobs', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  // The first worker is connected to another Redis.
  const elsewhere = await processOn(t, await redisServer(t));
  let made = 0;
  const duplicate = () => (made++ === 0 ? elsewhere.redis : one.redis).duplicate();
  const jobs = await openJobQueue(one.redis, 'traces');
  const logger = recordingLogger();
  const done = new Set<unknown>();
  const worker = await startWorker({
    ...workerParts(systemClock, logger),
    redis: deferred('redis', () => one.redis, { duplicate }),
    queue: 'traces',
    concurrency: 1,
    lockDuration: 1000,
    stallTimeout: 300,
    jobs,
    work: async (job) => {
      done.add(job.id);
      return undefined;
    },
  });
  t.teardown(() => worker.stop(AbortSignal.timeout(500)));
  await exporter.consume(nativeBatch(1));
  await until(() => done.size === 1);
  t.match(worker.progress(), { restarts: 1, isStalled: false });
  const progress = { ...worker.progress(), backlog: 7, isStalled: true };
  t.match(
    progressHealth({}, { ...worker, progress: () => progress }, one.redis, null),
    {
      healthy: false,
      message: 'Jobs wait, and the worker starts none.',
      details: { jobs_waiting: 7 },
    },
    'it is unhealthy until then',
  );
  t.match(logger.lines, [{ level: 'error', message: /starts no waiting job/ }]);
});

t.test('reports a worker whose jobs never end as unhealthy', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  const jobs = await openJobQueue(one.redis, 'traces');
  const clock = { ...systemClock, now: () => Date.now() + later };
  let later = 0;
  const ending = Promise.withResolvers<undefined>();
  const worker = await startWorker({
    ...workerParts(clock, recordingLogger()),
    ...{ redis: one.redis, queue: 'traces', concurrency: 2, jobs },
    ...{ lockDuration: 60_000, stallTimeout: 60_000 },
    work: () => ending.promise,
  });
  t.teardown(() => worker.stop(AbortSignal.timeout(500)));
  await exporter.consume(nativeBatch(1));
  await until(() => worker.progress().running === 1);
  t.equal(progressHealth({}, worker, one.redis, null).healthy, true);
  later = 60_000;
  t.match(progressHealth({}, worker, one.redis, null), {
    ...{ healthy: false, message: 'Jobs or deliveries are in flight, and none ends.' },
  });
  ending.resolve(undefined);
  await until(() => worker.progress().running === 0);
  t.equal(progressHealth({}, worker, one.redis, null).healthy, true);
});

t.test('returns jobs to the queue that run at the deadline of a stop', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const { exporter } = await one.gateway();
  let begun = 0;
  const hangs = { exporterId: 'sink', consume: () => new Promise<void>(() => void begun++) };
  await exporter.consume(nativeBatch(1));
  // Repeated, because a worker that waits for jobs while it stops could take the returned job.
  for (let round = 1; round <= 5; round++) {
    const { stop } = await one.worker({ lock_duration: '1h' }, [hangs]);
    await until(() => begun === round);
    await stop(20);
    t.equal(await redis.client.llen('{tracectl}:traces:active'), 0);
  }
  const { sink } = await one.worker({ lock_duration: '1h' });
  await sink.holds(1);
  t.equal(sink.batches.length, 1);
});

t.test('finds the oldest job', async (t) => {
  const redis = await redisServer(t);
  const one = await processOn(t, redis);
  const jobs = await openJobQueue(one.redis, 'traces');
  t.equal(await jobs.oldestAt(), undefined);
  const before = Date.now();
  await jobs.add('first', { batch: 'first' });
  const oldestAt = await jobs.oldestAt();
  t.ok(oldestAt !== undefined && oldestAt >= before && oldestAt <= Date.now());
  await new Promise((resolve) => setTimeout(resolve, 5));
  await jobs.add('second', { batch: 'second' });
  t.equal(await jobs.oldestAt(), oldestAt);
  const job = await jobs.bull.getJob(jobIdOf('first'));
  await job?.remove();
  t.ok(((await jobs.oldestAt()) ?? 0) > (oldestAt ?? 0));
});
