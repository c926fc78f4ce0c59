import t from 'tap';
import { startAnnouncer } from '../../../exporters/bullmq/announcer.ts';
import { startSweeper } from '../../../exporters/bullmq/sweeper.ts';
import { pointersIn } from '../../../src/bullmq/job-data.ts';
import type { NewJob } from '../../../src/bullmq/job-queue.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { RedisState } from '../../../src/redis/redis.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

/** An announcer, and the ids in each job that it added; `hold` keeps the next job from being added until it is released. */
function announcing() {
  const added: (readonly string[])[] = [];
  let held: Promise<void> | undefined;
  const jobs = {
    async add(_id: string, data: object) {
      await held;
      added.push(pointersIn(data));
    },
  };
  const clock = fakeClock();
  const announcer = startAnnouncer(jobs, clock, recordingLogger());
  const announce = (count: number, bytes = 10, items = 1): string[] => {
    const batches = Array.from({ length: count }, () =>
      nativeBatch(items, { body: Buffer.alloc(bytes) }),
    );
    for (const batch of batches) announcer.announce(batch);
    return batches.map(({ id }) => id);
  };
  const hold = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    held = promise;
    return resolve;
  };
  return { added, announcer, announce, clock, hold, jobs };
}

t.test('announces a batch that comes alone in a job of its own', async (t) => {
  const { added, announcer, announce } = announcing();
  const [one] = announce(1);
  await announcer.close();
  const [two] = announce(1);
  await announcer.close();
  t.same(added, [[one], [two]]);
});

t.test('announces the batches of one moment in jobs of at most 64', async (t) => {
  const { added, announcer, announce } = announcing();
  const ids = announce(65);
  await announcer.close();
  t.same(added, [ids.slice(0, 64), ids.slice(64)]);
});

t.test('announces at most 512 KiB of bodies in a job, and a larger body alone', async (t) => {
  const { added, announcer, announce } = announcing();
  const halves = announce(3, 256 * 1024);
  const large = announce(1, 512 * 1024 + 1);
  const small = announce(2);
  await announcer.close();
  t.same(added, [halves.slice(0, 2), halves.slice(2), large, small]);
});

t.test('announces at most 500 items in a job, and a batch with more alone', async (t) => {
  const { added, announcer, announce } = announcing();
  const first = announce(2, 10, 250);
  const large = announce(1, 10, 501);
  const small = announce(2);
  await announcer.close();
  t.same(added, [first, large, small]);
});

t.test('announces the batches that come while a job is being added in the next job', async (t) => {
  const { added, announcer, announce, hold } = announcing();
  const release = hold();
  const first = announce(1);
  await new Promise(setImmediate);
  const later = [...announce(2), ...announce(1)];
  release();
  await announcer.close();
  t.same(added, [first, later]);
});

t.test('goes on after a job that could not be added', async (t) => {
  const { added, announcer, announce, jobs } = announcing();
  const { add } = jobs;
  jobs.add = async () => {
    jobs.add = add;
    throw new RetryableError('redis_failed', 'Redis cannot be reached');
  };
  const ids = announce(65);
  await announcer.close();
  t.same(added, [ids.slice(64)]);
});

t.test('leaves batches to the sweeper while too many wait', async (t) => {
  const { added, announcer, announce } = announcing();
  const ids = announce(4097);
  await announcer.close();
  t.same(added.flat(), ids.slice(0, 4096));
});

t.test('does not wait for Redis when it closes', async (t) => {
  const { announcer, announce, clock, hold } = announcing();
  hold();
  announce(1);
  await new Promise(setImmediate);
  const closed = announcer.close();
  clock.advance(1000);
  await t.resolves(closed);
});

/** Sweeps once over the ids that wait in the store. Resolves with the ids of the added jobs, and of those recreated. */
async function sweepOnce(
  waiting: readonly string[],
  announced: (skip: number, limit: number) => readonly string[],
  { listsAreLost = false } = {},
) {
  const clock = fakeClock();
  const added: string[] = [];
  const recreated: string[] = [];
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const idsOf = (jobs: readonly NewJob[]) => jobs.flatMap(({ data }) => pointersIn(data));
  const state: RedisState = {
    ...{ connected: true, refuses: undefined, reason: undefined },
    ...{ maxmemoryPolicy: undefined, appendOnly: undefined },
  };
  const sweeper = startSweeper({
    ...{ name: 'in', clock, logger: recordingLogger(), interval: 1000 },
    queue: {
      waitingFor: async (_ms, limit, after = '') =>
        waiting.filter((id) => id > after).slice(0, limit),
    },
    jobs: {
      announced: async (skip, limit) => new Set(announced(skip, limit)),
      addAll: async (jobs) => void added.push(...idsOf(jobs)),
      recreateLost: async (jobs) => recreated.push(...idsOf(jobs)),
      count: async () => (listsAreLost ? 0 : added.length),
    },
    storage: {
      async withLease(_name, work) {
        await work({ renew: async () => {} });
        resolve();
        return true;
      },
    },
    redis: { state: () => state, onState: () => () => {} },
  });
  clock.advance(1000);
  await over;
  await sweeper.stop();
  return { added, recreated };
}

const idsFrom = (first: number, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `batch_${String(first + i).padStart(6, '0')}`);

t.test('the sweeper announces each batch that no job announces', async (t) => {
  const ids = idsFrom(0, 10);
  const { added, recreated } = await sweepOnce(ids, () => [...ids.slice(0, 4), ...ids.slice(6)]);
  t.same(added, ids.slice(4, 6));
  t.same(recreated, []);
});

t.test('the sweeper reads one page of a backlog whose batches have jobs', async (t) => {
  const reads: number[] = [];
  const ids = idsFrom(0, 2000);
  const { added } = await sweepOnce(ids, (skip) => {
    reads.push(skip);
    return ids;
  });
  t.same(added, []);
  t.same(reads, [0]);
});

t.test('the sweeper announces a whole backlog without jobs', async (t) => {
  const ids = idsFrom(0, 1001);
  t.same((await sweepOnce(ids, () => [])).added, ids);
});

t.test('the sweeper finds the job of a batch in the page of jobs before', async (t) => {
  const ids = idsFrom(0, 600);
  const pages: Readonly<Record<number, readonly string[]>> = {
    0: ids.slice(1, 501),
    500: ids.slice(501),
  };
  t.same((await sweepOnce(ids, (skip) => pages[skip] ?? [])).added, ids.slice(0, 1));
});

t.test('the sweeper recreates jobs that are in no list of Redis', async (t) => {
  const ids = idsFrom(0, 3);
  const { recreated } = await sweepOnce(ids, () => [], { listsAreLost: true });
  t.same(recreated, ids);
});
