import type { Queue } from 'bullmq';
import { RetryableError } from '../model/errors.ts';
import type { RedisConnection } from '../redis/redis.ts';
import type { JobData } from './job-data.ts';
import { jobIdOf } from './names.ts';

export type NewJob = { readonly batchId: string; readonly data: JobData };

/** Where jobs are put. */
export type JobQueue = {
  /** One job per batch. Rejects with `RetryableError`: `redis_full`, `redis_failed`. */
  add(batchId: string, data: JobData): Promise<void>;
  /** Those that are there already stay as they are. */
  addAll(jobs: readonly NewJob[]): Promise<void>;
  /** Those that are there and in no list, so that no worker will find them, are made anew; how many. */
  mend(jobs: readonly NewJob[]): Promise<number>;
  /** Jobs that wait for a worker, wait for their time, or are with a worker. */
  count(): Promise<number>;
  /** Jobs that wait for a worker. */
  waiting(): Promise<number>;
  /** A job that a worker holds with this token waits for another one. */
  giveBack(jobId: string, token: string | undefined): Promise<void>;
  readonly bull: Queue;
  close(): Promise<void>;
};

/** A job is gone when it is done. None fails for good: what cannot be processed is set aside elsewhere. */
const OPTIONS = {
  attempts: 2_147_483_647,
  backoff: { type: 'exponential', delay: 1000, jitter: 0.5 },
  removeOnComplete: true,
  removeOnFail: false,
};

/** What becomes of a job in one of these states is up to a worker. */
const FOUND_BY_WORKERS: ReadonlySet<string> = new Set([
  'waiting',
  'delayed',
  'active',
  'prioritized',
]);

/** Loads the library when a configuration names it, and not before. */
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
  // The connection is the extension's, which speaks for it.
  bull.on('error', ignore);

  const jobOf = (batchId: string, data: JobData) => ({
    name: 'batch',
    data,
    opts: { ...OPTIONS, jobId: jobIdOf(batchId) },
  });
  async function addAll(jobs: readonly NewJob[]): Promise<void> {
    refuseWhenAway(redis);
    await redis.run(() => bull.addBulk(jobs.map(({ batchId, data }) => jobOf(batchId, data))));
  }
  return {
    bull,
    async add(batchId, data) {
      refuseWhenAway(redis);
      const { opts } = jobOf(batchId, data);
      await redis.run(() => bull.add('batch', data, opts));
    },
    addAll,
    async mend(jobs) {
      refuseWhenAway(redis);
      const states = await redis.run(() =>
        Promise.all(jobs.map(({ batchId }) => bull.getJobState(jobIdOf(batchId)))),
      );
      const lost = jobs.filter((_, i) => !FOUND_BY_WORKERS.has(states[i] ?? 'unknown'));
      await redis.run(() => Promise.all(lost.map(({ batchId }) => bull.remove(jobIdOf(batchId)))));
      await addAll(lost);
      return lost.length;
    },
    count: async () => {
      refuseWhenAway(redis);
      return redis.run(() =>
        bull.getJobCountByTypes('waiting', 'delayed', 'active', 'prioritized'),
      );
    },
    waiting: async () => {
      refuseWhenAway(redis);
      return redis.run(() => bull.getJobCountByTypes('waiting', 'prioritized'));
    },
    giveBack: async (jobId, token) => {
      refuseWhenAway(redis);
      await redis.run(async () => (await bull.getJob(jobId))?.moveToWait(token));
    },
    async close() {
      await bull.close();
    },
  };
}

/** The library waits for a connection that is away, as long as it takes. */
function refuseWhenAway(redis: RedisConnection): void {
  if (redis.state().connected) return;
  throw new RetryableError('redis_failed', 'Redis cannot be reached', { retryAfterMs: 1000 });
}

/** Told by somebody else, or of no consequence. */
export function ignore(): void {}
