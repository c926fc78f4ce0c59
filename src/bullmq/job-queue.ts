import type { JobType, Queue } from 'bullmq';
import type { Waits } from '../component/waits.ts';
import { RetryableError } from '../model/errors.ts';
import type { RedisClient, RedisConnection } from '../redis/redis.ts';
import type { JobData } from './job-data.ts';
import { pointersIn } from './job-data.ts';
import { jobIdOf } from './names.ts';

export type NewJob = { readonly batchId: string; readonly data: JobData };

/** The producing side of a BullMQ queue. */
export type JobQueue = {
  /** One job per id of a batch. Rejects with `RetryableError`: `redis_full`, `redis_failed`. */
  add(batchId: string, data: JobData): Promise<void>;
  /** Jobs that exist already are left unchanged. */
  addAll(jobs: readonly NewJob[]): Promise<void>;
  /** Recreates jobs that are in no list of BullMQ, which no worker would find; resolves with their number. */
  recreateLost(jobs: readonly NewJob[]): Promise<number>;
  /**
   * Ids of the batches in a store that jobs announce: jobs with a worker, the `limit` delayed jobs that are due next, and
   * the `limit` oldest jobs that wait, after the `skip` oldest.
   */
  announced(skip: number, limit: number): Promise<Set<string>>;
  /** Jobs that wait, are delayed or are with a worker. */
  count(): Promise<number>;
  /** Jobs that wait for a worker. */
  waiting(): Promise<number>;
  /**
   * When the oldest job was added, in milliseconds since the epoch; undefined if no job waits. Of delayed jobs it
   * reads the one that is due next, because Redis orders them by their due time.
   */
  oldestAt(): Promise<number | undefined>;
  /** Whether a worker holds the job. The lock of a worker that is gone expires. */
  isLocked(jobId: string): Promise<boolean>;
  /**
   * BullMQ looks for jobs of workers that are gone when the key of its last look has expired, and takes those whose lock has. Keys that were
   * set while the clock of Redis was ahead expire when that time comes: those that last for more than an hour more than `ms` get `ms`.
   */
  boundLocks(ms: number): Promise<void>;
  /** Extends the lock of a job by milliseconds. Resolves with false if the token no longer holds it. */
  extendLock(jobId: string, token: string, ms: number): Promise<boolean>;
  /**
   * Returns a job to the queue, due after `ms`, from the worker that holds it with this token. Workers compare the due
   * time with their own clocks, so it counts from the clock of Redis or from `now`, the clock of this process, whichever
   * is behind: a process whose clock is ahead holds no job up.
   */
  delay(jobId: string, token: string | undefined, ms: number, now: number): Promise<void>;
  /** Returns a job to the queue, from the worker that holds it with this token. */
  giveBack(jobId: string, token: string | undefined): Promise<void>;
  readonly bull: Queue;
  close(): Promise<void>;
};

/** Finished jobs are removed. Attempts are unlimited: undeliverable batches become dead letters instead. */
const OPTIONS = {
  attempts: 2_147_483_647,
  backoff: { type: 'exponential', delay: 1000, jitter: 0.5 },
  removeOnComplete: true,
  removeOnFail: false,
};

/**
 * KEYS the key of the last look for jobs of workers that are gone, active jobs
 * ARGV beginning of the keys of jobs, milliseconds, the most milliseconds that a key may last
 */
const BOUND_LOCKS = `
local function bound(key)
  if redis.call('PTTL', key) > tonumber(ARGV[3]) then redis.call('PEXPIRE', key, ARGV[2]) end
end
bound(KEYS[1])
for _, job in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do bound(ARGV[1] .. job .. ':lock') end
`;
/** Workers may have other durations of locks. */
const MOST_LOCKED_MORE_MS = 3_600_000;

/** The states of a job whose batch is not delivered yet. */
const OLDEST: readonly JobType[] = ['waiting', 'active', 'delayed'];

/** The states whose jobs workers find. */
const FOUND_BY_WORKERS: ReadonlySet<string> = new Set([
  'waiting',
  'delayed',
  'active',
  'prioritized',
]);

/**
 * Loads the library only if a configuration needs it. The library waits for its connection without a limit, so each
 * call is a step of `waits`, if given, and rejects within its bound.
 */
export async function openJobQueue(
  redis: RedisConnection,
  name: string,
  waits?: Waits,
): Promise<JobQueue> {
  const { Queue } = await import('bullmq');
  const bull = new Queue(name, {
    connection: redis.client,
    prefix: redis.prefix,
    skipVersionCheck: true,
    skipWaitingForReady: true,
    skipMetasUpdate: true,
    streams: { events: { maxLen: 1000 } },
  });
  // The redis extension reports errors of its connection.
  bull.on('error', ignore);

  const jobOf = (batchId: string, data: JobData) => ({
    name: 'batch',
    data,
    opts: { ...OPTIONS, jobId: jobIdOf(batchId) },
  });
  async function run<T>(step: string, work: () => Promise<T>): Promise<T> {
    refuseWhenDisconnected(redis);
    const running = () => redis.run(work);
    return waits === undefined ? running() : waits.step(`${step} in Redis`, running);
  }
  async function addAll(jobs: readonly NewJob[]): Promise<void> {
    const added = jobs.map(({ batchId, data }) => jobOf(batchId, data));
    await run('add jobs', () => bull.addBulk(added));
  }
  return {
    bull,
    async add(batchId, data) {
      const { opts } = jobOf(batchId, data);
      await run('add job', () => bull.add('batch', data, opts));
    },
    addAll,
    async recreateLost(jobs) {
      const states = await run('read states of jobs', () =>
        Promise.all(jobs.map(({ batchId }) => bull.getJobState(jobIdOf(batchId)))),
      );
      const lost = jobs.filter((_, i) => !FOUND_BY_WORKERS.has(states[i] ?? 'unknown'));
      await run('remove jobs', () =>
        Promise.all(lost.map(({ batchId }) => bull.remove(jobIdOf(batchId)))),
      );
      await addAll(lost);
      return lost.length;
    },
    announced: (skip, limit) =>
      run('read jobs', () => announcedIn(bull, redis.client, skip, limit)),
    count: () =>
      run('count jobs', () =>
        bull.getJobCountByTypes('waiting', 'delayed', 'active', 'prioritized'),
      ),
    waiting: () => run('count jobs', () => bull.getJobCountByTypes('waiting', 'prioritized')),
    oldestAt: () =>
      run('read oldest job', async () => {
        const ids = await Promise.all(OLDEST.map((state) => bull.getRanges([state], 0, 0, true)));
        // Not the jobs themselves, which may hold payloads.
        const times = await Promise.all(
          ids.flat().map((id) => redis.client.hget(bull.toKey(id), 'timestamp')),
        );
        const found = times.flatMap((time) => (time === null ? [] : [Number(time)]));
        return found.length === 0 ? undefined : Math.min(...found);
      }),
    isLocked: (jobId) =>
      run('read lock', async () => (await redis.client.exists(`${bull.toKey(jobId)}:lock`)) === 1),
    boundLocks: boundLocks(redis, bull),
    extendLock: (jobId, token, ms) =>
      run('extend lock', async () => (await bull.backend.extendLock(jobId, token, ms)) === 1),
    delay: (jobId, token, ms, now) =>
      run('delay job', async () => {
        const from = Math.min(now, await timeOf(redis.client));
        await bull.backend.moveToDelayed(jobId, from, ms, token, { skipAttempt: true });
      }),
    giveBack: async (jobId, token) => {
      await run('return job', async () => (await bull.getJob(jobId))?.moveToWait(token));
    },
    async close() {
      await bull.close();
    },
  };
}

function boundLocks(redis: RedisConnection, bull: Queue): JobQueue['boundLocks'] {
  const script = redis.script(BOUND_LOCKS);
  const keys = [bull.toKey('stalled-check'), bull.toKey('active')];
  return async (ms) =>
    void (await script.run(keys, [bull.toKey(''), ms, ms + MOST_LOCKED_MORE_MS]));
}

async function announcedIn(
  bull: Queue,
  client: RedisClient,
  skip: number,
  limit: number,
): Promise<Set<string>> {
  const ids = await Promise.all([
    bull.getRanges(['active'], 0, -1, true),
    bull.getRanges(['delayed'], 0, limit - 1, true),
    bull.getRanges(['waiting'], skip, skip + limit - 1, true),
    bull.getRanges(['prioritized'], skip, skip + limit - 1, true),
  ]);
  const found = await Promise.all(ids.flat().map((id) => client.hget(bull.toKey(id), 'data')));
  return new Set(found.flatMap((data) => pointersIn(parsed(data))));
}

function parsed(json: string | null): unknown {
  try {
    return JSON.parse(json ?? 'null');
  } catch {
    return undefined;
  }
}

/** Without this check the library would wait for the connection without a limit. */
function refuseWhenDisconnected(redis: RedisConnection): void {
  if (redis.state().connected) return;
  throw new RetryableError('redis_failed', 'Redis cannot be reached', { retryAfterMs: 1000 });
}

/** Milliseconds since the epoch by the clock of Redis. */
async function timeOf(client: RedisClient): Promise<number> {
  const [seconds, micros] = await client.time();
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

/** Ignores errors that the redis extension reports, and errors without a consequence. */
export function ignore(): void {}
