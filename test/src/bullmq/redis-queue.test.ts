import { Worker } from 'bullmq';
import type { Test } from 'tap';
import t from 'tap';
import { batchIn } from '../../../src/bullmq/job-data.ts';
import { openRedisQueue } from '../../../src/bullmq/redis-queue.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import type { ItemErasing, QueueDrop } from '../../../src/queue/queue.ts';
import { DeliveryUnderWay } from '../../../src/queue/queue.ts';
import { tracedItems, withoutItems } from '../../../src/store/erasing/items.ts';
import { nativeBatch, nativeEvent } from '../../helper/batches.ts';
import { processOn } from '../../helper/job-queue.ts';
import { redisServer } from '../../helper/redis-server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';

const server = await redisServer(t);
const REASON = { code: 'unreadable', message: 'it cannot be read' };

/** Items of the trace `gone`, which erasures cut out, and of the trace `kept`. */
function batchOf(...traces: readonly string[]): SealedBatch {
  return nativeBatch(traces.map((trace, i) => nativeEvent({ id: `${i}`, trace_id: trace })));
}

/** A queue of its own, with an erasure of the trace `gone`. */
async function rig(t: Test) {
  await server.client.flushall();
  const { redis } = await processOn(t, server);
  const queue = await openRedisQueue(redis, 'q', systemClock, recordingLogger());
  t.teardown(() => queue.close());
  const drops: QueueDrop[] = [];
  queue.onDrop((drop) => drops.push(drop));
  /** Resolves with the number of batches with items to erase. */
  let found = 0;
  async function erase(waitMs = 60_000): Promise<number> {
    found = 0;
    const erasing: ItemErasing = {
      ...{ projectId: 'proj_test', until: Date.now() + 1000, waitMs },
      async rest(batch) {
        const items = tracedItems(batch).filter(({ traceId }) => traceId === 'gone');
        if (items.length === 0) return undefined;
        found++;
        return withoutItems(batch, new Set(items.map(({ position }) => position)));
      },
    };
    for await (const _ of queue.eraseItems?.(erasing) ?? []);
    return found;
  }
  /** Runs `work` between the first read of the ids of dead letters and that of their texts. */
  function betweenReads(work: () => Promise<unknown>): void {
    const { client } = redis;
    const read = client.hmget.bind(client) as (...args: unknown[]) => Promise<(string | null)[]>;
    client.hmget = (async (...args: unknown[]) => {
      client.hmget = read as typeof client.hmget;
      await work();
      return read(...args);
    }) as typeof client.hmget;
  }
  /** A worker takes a job; `end` fails its delivery, so that the job waits to be retried; `succeed` ends it for good. */
  async function deliver() {
    const connection = redis.duplicate();
    connection.on('error', () => {});
    const worker = new Worker(queue.jobs.bull.name, null, { connection, prefix: redis.prefix });
    t.teardown(async () => {
      await worker.close();
      connection.disconnect();
    });
    const job = await worker.getNextJob('token');
    const id = job?.id;
    if (job === undefined || id === undefined) throw new Error('no job waits');
    return {
      job: id,
      end: () => queue.jobs.giveBack(id, 'token'),
      /** The lock of a worker that is gone expires. */
      die: () => redis.client.del(`${queue.jobs.bull.toKey(id)}:lock`),
      succeed: () => job.moveToCompleted(null, 'token', false),
    };
  }
  return { queue, redis, drops, erase, noted: () => found, deliver, betweenReads };
}

t.test('an erasure finds a dead letter that gets a new number while it reads', async (t) => {
  const { queue, drops, erase, betweenReads } = await rig(t);
  const batch = batchOf('gone', 'kept');
  await queue.deadLetter('b', batch, REASON);
  betweenReads(() => queue.deadLetter('b', batch, REASON));
  t.equal(await erase(), 1);
  t.match(await queue.deadLetters(), [{ id: 2, items: 1 }]);
  t.same(drops, [{ branch: 'b', items: 1, reason: 'erasure', wasDead: true }]);
  t.equal(await erase(), 0);
});

t.test('an erasure finds the dead letters behind one that is removed while it reads', async (t) => {
  const { queue, erase, betweenReads } = await rig(t);
  for (let i = 0; i < 101; i++) await queue.deadLetter(`b${i}`, batchOf('gone', 'kept'), REASON);
  betweenReads(() => queue.drop([1]));
  t.equal(await erase(), 100);
  t.equal(await erase(), 0);
  t.equal((await queue.deadLetters({ limit: 200 })).length, 100);
});

t.test('an erasure finds a batch whose dead letter is replayed before it reads it', async (t) => {
  const { queue, erase } = await rig(t);
  await queue.deadLetter('b', batchOf('gone', 'kept'), REASON);
  const { bull } = queue.jobs;
  const read = bull.getJobs.bind(bull);
  // The replay begins when the jobs were read.
  bull.getJobs = async (...args) => {
    const found = await read(...args);
    bull.getJobs = read;
    await queue.replay('all');
    return found;
  };
  t.equal(await erase(), 1);
  const [job] = await bull.getJobs(['waiting']);
  t.equal(batchIn(job?.data)?.items, 1);
});

t.test('no command changes a dead letter that got the number of a lost one', async (t) => {
  const { queue, redis, erase } = await rig(t);
  /** Redis loses a dead letter after it was read, as in a failover, and gives its number to another one. */
  async function loseAfterRead(): Promise<SealedBatch> {
    const [lost, other] = [batchOf('gone', 'kept'), batchOf('kept')];
    await queue.deadLetter('b', lost, REASON);
    const { client } = redis;
    const read = client.hmget.bind(client) as (...args: unknown[]) => Promise<(string | null)[]>;
    client.hmget = (async (...args: unknown[]) => {
      client.hmget = read as typeof client.hmget;
      const answer = await read(...args);
      await server.client.flushall();
      await queue.deadLetter('b', other, REASON);
      return answer;
    }) as typeof client.hmget;
    return other;
  }
  for (const command of [() => queue.drop([1]), () => queue.replay([1]), () => erase()]) {
    const { id, items } = await loseAfterRead();
    await command();
    t.match(await queue.deadLetters(), [{ id: 1, batchId: id, items }]);
    await server.client.flushall();
  }
});

t.test('an erasure cuts its items out of a job after its delivery', async (t) => {
  const { queue, drops, erase, noted, deliver } = await rig(t);
  const batch = batchOf('gone', 'kept');
  await queue.append(batch);
  const { job, end } = await deliver();
  const erased = erase();
  await until(() => noted() === 1);
  // The delivery has the items that it began with.
  await queue.deadLetter('b', batch, REASON);
  await end();
  t.equal(await erased, 2);
  t.match(drops, [{ items: 1, reason: 'erasure' }]);
  t.equal(batchIn((await queue.jobs.bull.getJob(job))?.data)?.items, 1);
  t.match(await queue.deadLetters(), [{ items: 1 }]);
});

t.test('an erasure finds the items again of a job that a worker took before the cut', async (t) => {
  const { queue, drops, erase, deliver } = await rig(t);
  await queue.append(batchOf('gone', 'kept'));
  const { bull } = queue.jobs;
  const stateOf = bull.getJobState.bind(bull);
  let taken: Awaited<ReturnType<typeof deliver>> | undefined;
  bull.getJobState = async (id) => {
    const state = await stateOf(id);
    taken ??= await deliver();
    return state;
  };
  await t.rejects(erase(0), DeliveryUnderWay);
  t.same(drops, []);
  await taken?.end();
  t.equal(await erase(0), 1);
  t.match(drops, [{ items: 1, reason: 'erasure' }]);
  t.equal(batchIn((await bull.getJob(taken?.job ?? ''))?.data)?.items, 1);
});

t.test('an erasure drops nothing of a job whose delivery succeeds', async (t) => {
  const { queue, drops, erase, noted, deliver } = await rig(t);
  await queue.append(batchOf('gone'));
  const { succeed } = await deliver();
  const erased = erase();
  await until(() => noted() === 1);
  await succeed();
  t.equal(await erased, 1);
  t.same(drops, []);
});

t.test('an erasure goes on if a job is delivered before it cuts its items out', async (t) => {
  const { queue, drops, erase } = await rig(t);
  await queue.append(batchOf('gone', 'kept'));
  const { bull } = queue.jobs;
  const read = bull.getJobs.bind(bull);
  bull.getJobs = async (...args) => {
    const found = await read(...args);
    for (const job of found) await job.remove();
    return found;
  };
  t.equal(await erase(), 1);
  t.same(drops, []);
});

t.test('an erasure waits for the delivery of a job without further items', async (t) => {
  const { queue, drops, erase, noted, deliver } = await rig(t);
  await queue.append(batchOf('gone'));
  const { job, end } = await deliver();
  const erased = erase();
  await until(() => noted() === 1);
  t.same(drops, []);
  await end();
  t.equal(await erased, 1);
  t.match(drops, [{ items: 1, reason: 'erasure' }]);
  t.equal(await queue.jobs.bull.getJob(job), undefined);
});

for (const traces of [['gone'], ['gone', 'kept']]) {
  t.test(`an erasure waits for no worker that is gone, with a job of ${traces}`, async (t) => {
    const { queue, drops, erase, noted, deliver } = await rig(t);
    await queue.append(batchOf(...traces));
    const { job, die } = await deliver();
    const erased = erase();
    await until(() => noted() === 1);
    await die();
    t.equal(await erased, 1);
    t.match(drops, [{ items: 1, reason: 'erasure' }]);
    const left = await queue.jobs.bull.getJob(job);
    t.equal(batchIn(left?.data)?.items, traces.length === 1 ? undefined : 1);
  });

  t.test(`an erasure ends its wait for a long delivery of ${traces}`, async (t) => {
    const { queue, drops, erase, deliver } = await rig(t);
    await queue.append(batchOf(...traces));
    const { end } = await deliver();
    for (const attempt of ['first', 'second']) {
      const underWay = new DeliveryUnderWay('a worker delivers a job of the queue "q"');
      await t.rejects(erase(0), underWay, attempt);
    }
    t.same(drops, []);
    await end();
    await erase(0);
    t.equal(await erase(0), 0);
    t.match(drops, [{ items: 1, reason: 'erasure' }]);
    t.equal(drops.length, 1);
  });
}

t.test(
  'an erasure counts a dead letter once that gets a new number when it was read',
  async (t) => {
    const { queue, drops, erase, redis } = await rig(t);
    const batch = batchOf('gone');
    await queue.deadLetter('b', batch, REASON);
    const { client } = redis;
    const read = client.hmget.bind(client) as (...args: unknown[]) => Promise<(string | null)[]>;
    client.hmget = (async (...args: unknown[]) => {
      client.hmget = read as typeof client.hmget;
      const texts = await read(...args);
      await queue.deadLetter('b', batch, REASON);
      return texts;
    }) as typeof client.hmget;
    t.equal(await erase(), 2);
    t.same(await queue.deadLetters(), []);
    t.equal(drops.length, 1);
  },
);
