import type { Queue } from 'bullmq';
import { RetryableError } from '../model/errors.ts';
import type { RedisConnection } from '../redis/redis.ts';
import type { JobData } from './job-data.ts';
import { jobIdOf } from './names.ts';

export type NewJob = { readonly batchId: string; readonly data: JobData };

/** The producing side of a BullMQ queue. */
export type JobQueue = {
  /** One job per batch. Rejects with `RetryableError`: `redis_full`, `redis_failed`. */
  add(batchId: string, data: JobData): Promise<void>;
  /** Jobs that exist already are left unchanged. */
  addAll(jobs: readonly NewJob[]): Promise<void>;
  /** Recreates jobs that are in no list of BullMQ, which no worker would find; resolves with their number. */
  recreateLost(jobs: readonly NewJob[]): Promise<number>;
  /** Jobs that wait, are delayed or are with a worker. */
  count(): Promise<number>;
  /** Jobs that wait for a worker. */
  waiting(): Promise<number>;
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

/** The states whose jobs workers find. */
const FOUND_BY_WORKERS: ReadonlySet<string> = new Set([
  'waiting',
  'delayed',
  'active',
  'prioritized',
]);

/** Loads the library only if a configuration needs it. */
export async function openJobQueue(redis: RedisConnection, name: string): Promise<JobQueue> {
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
  async function addAll(jobs: readonly NewJob[]): Promise<void> {
    refuseWhenDisconnected(redis);
    await redis.run(() => bull.addBulk(jobs.map(({ batchId, data }) => jobOf(batchId, data))));
  }
  return {
    bull,
    async add(batchId, data) {
      refuseWhenDisconnected(redis);
      const { opts } = jobOf(batchId, data);
      await redis.run(() => bull.add('batch', data, opts));
    },
    addAll,
    async recreateLost(jobs) {
      refuseWhenDisconnected(redis);
      const states = await redis.run(() =>
        Promise.all(jobs.map(({ batchId }) => bull.getJobState(jobIdOf(batchId)))),
      );
      const lost = jobs.filter((_, i) => !FOUND_BY_WORKERS.has(states[i] ?? 'unknown'));
      await redis.run(() => Promise.all(lost.map(({ batchId }) => bull.remove(jobIdOf(batchId)))));
      await addAll(lost);
      return lost.length;
    },
    count: async () => {
      refuseWhenDisconnected(redis);
      return redis.run(() =>
        bull.getJobCountByTypes('waiting', 'delayed', 'active', 'prioritized'),
      );
    },
    waiting: async () => {
      refuseWhenDisconnected(redis);
      return redis.run(() => bull.getJobCountByTypes('waiting', 'prioritized'));
    },
    extendLock: async (jobId, token, ms) => {
      refuseWhenDisconnected(redis);
      return (await redis.run(() => bull.backend.extendLock(jobId, token, ms))) === 1;
    },
    delay: async (jobId, token, ms, now) => {
      refuseWhenDisconnected(redis);
      const from = Math.min(now, await timeOf(redis));
      await redis.run(() =>
        bull.backend.moveToDelayed(jobId, from, ms, token, { skipAttempt: true }),
      );
    },
    giveBack: async (jobId, token) => {
      refuseWhenDisconnected(redis);
      await redis.run(async () => (await bull.getJob(jobId))?.moveToWait(token));
    },
    async close() {
      await bull.close();
    },
  };
}

/** Without this check the library would wait for the connection without a limit. */
function refuseWhenDisconnected(redis: RedisConnection): void {
  if (redis.state().connected) return;
  throw new RetryableError('redis_failed', 'Redis cannot be reached', { retryAfterMs: 1000 });
}

/** Milliseconds since the epoch by the clock of Redis. */
async function timeOf(redis: RedisConnection): Promise<number> {
  const [seconds, micros] = await redis.run((client) => client.time());
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

/** Ignores errors that the redis extension reports, and errors without a consequence. */
export function ignore(): void {}
