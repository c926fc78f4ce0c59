import type { Job, Worker } from 'bullmq';
import type { JobQueue } from '../../src/bullmq/job-queue.ts';
import { ignore } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { ProcessEnd } from '../../src/component/process-end.ts';
import type { Waits } from '../../src/component/waits.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { RedisClient, RedisConnection } from '../../src/redis/redis.ts';
import type { Progress } from './progress.ts';
import { restAfterRefusals } from './refusals.ts';
import type { WorkerProgress } from './watchdog.ts';
import { startWatchdog } from './watchdog.ts';

export type WorkerOptions = {
  readonly redis: RedisConnection;
  readonly queue: string;
  readonly concurrency: number;
  /** Milliseconds. */
  readonly lockDuration: number;
  readonly stallTimeout: number;
  readonly progressTimeout: number;
  readonly deliveryTimeout: number;
  /** Longest wait before a retry. */
  readonly retryInterval: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The queue, over another connection than the worker's. */
  readonly jobs: Pick<JobQueue, 'waiting' | 'delay' | 'giveBack' | 'boundLocks'>;
  /**
   * Resolves with the milliseconds until the job is due again, 0 if it is due at once, undefined if it is done or was given back.
   * Rejects with a `PermanentError` if the job is invalid. `giveBack` returns the job to the queue, where any worker takes it.
   */
  readonly work: (job: Job, giveBack: () => Promise<void>) => Promise<number | undefined>;
  /** `work` counts what it completes. */
  readonly progress: Progress;
  readonly waits: Waits;
  readonly processEnd: ProcessEnd;
  /** Deliveries in flight. */
  readonly delivering: () => number;
  /** Whether every exporter rests after failures. */
  readonly isResting: () => boolean;
};

export type JobWorker = {
  progress(): WorkerProgress;
  /** Waits for the running jobs until the deadline, then returns them to the queue. */
  stop(deadline: AbortSignal): Promise<void>;
};

const RETURN_JOBS_MS = 500;
/** BullMQ fails a job that stalled more often than this; a job is never given up. */
const UNLIMITED = 2_147_483_647;

type ConnectedWorker = {
  readonly worker: Worker;
  readonly connection: RedisClient;
  /** Ends the pauses after refusals: the worker is not resumed. */
  readonly endRests: () => void;
};

/**
 * Starts a BullMQ worker and watches it. A worker that is connected but takes no jobs, as happens after Redis lost its
 * scripts and locks, is replaced. A worker whose jobs never end ends the process.
 */
export async function startWorker(options: WorkerOptions): Promise<JobWorker> {
  const { DelayedError, UnrecoverableError, WaitingError, Worker } = await import('bullmq');
  const { redis, jobs, clock } = options;
  /** Running jobs with their lock tokens. */
  const running = new Map<Job, string | undefined>();
  let onFinished = ignore;
  let current = connect();

  function connect(): ConnectedWorker {
    const connection = redis.duplicate();
    connection.on('error', ignore);
    const worker = new Worker(options.queue, run, {
      connection,
      prefix: redis.prefix,
      concurrency: options.concurrency,
      lockDuration: options.lockDuration,
      stalledInterval: Math.max(1000, options.lockDuration / 2),
      maxStalledCount: UNLIMITED,
      removeOnComplete: { count: 0 },
      skipVersionCheck: true,
      skipWaitingForReady: true,
    });
    const endRests = restAfterRefusals(worker, options);
    return { worker, connection, endRests };
  }

  async function run(job: Job, token?: string): Promise<void> {
    running.set(job, token);
    watchdog.started();
    const id = job.id ?? '';
    const held = heldJob(jobs, id, token);
    try {
      const delay = await options.work(job, held.giveBack);
      if (held.isGivenBack()) throw new WaitingError();
      if (delay === undefined) return;
      // Delayed instead of failed, so that the job does not use up an attempt.
      if (delay > 0) {
        await jobs.delay(id, token, delay, clock.now());
        throw new DelayedError();
      }
      await held.giveBack();
      throw new WaitingError();
    } catch (error) {
      if (error instanceof PermanentError) throw new UnrecoverableError(error.message);
      throw error;
    } finally {
      running.delete(job);
      if (running.size === 0) onFinished();
    }
  }

  async function finished(): Promise<void> {
    if (running.size === 0) return;
    await new Promise<void>((resolve) => {
      onFinished = resolve;
    });
  }

  const watchdog = startWatchdog({
    ...options,
    running: () => running.size,
    replace: () => {
      end(current);
      current = connect();
    },
  });

  const endBounds = boundLocks(options);
  return {
    progress: watchdog.progress,
    async stop(deadline) {
      watchdog.stop();
      endBounds();
      current.endRests();
      // Takes no further jobs. `close` would wait for the running jobs without a deadline.
      current.worker.pause(true).catch(ignore);
      await Promise.race([finished(), aborted(deadline)]);
      if (running.size === 0) await orAfter(clock, RETURN_JOBS_MS, close(current.worker));
      // Ends first, because a worker that waits for jobs would take the returned jobs.
      end(current);
      await returned(options, running);
    },
  };
}

/** Returns the jobs now instead of when their locks expire. */
async function returned(
  { jobs, clock }: WorkerOptions,
  running: ReadonlyMap<Job, string | undefined>,
): Promise<void> {
  const back = [...running].map(([{ id = '' }, token]) => jobs.giveBack(id, token));
  if (back.length > 0) await orAfter(clock, RETURN_JOBS_MS, Promise.allSettled(back));
}

/** Lets workers find the jobs of those that are gone again after the clock of Redis was ahead. Returns a function that ends it. */
function boundLocks({ jobs, lockDuration, clock, logger }: WorkerOptions): () => void {
  let isEnded = false;
  let cancel = clock.after(lockDuration, run);
  function run(): void {
    jobs
      .boundLocks(lockDuration)
      .catch((error: unknown) => {
        logger.debug({ err: error }, 'Locks of jobs could not be bounded; retried');
      })
      .then(() => {
        if (!isEnded) cancel = clock.after(lockDuration, run);
      });
  }
  return () => {
    isEnded = true;
    cancel();
  };
}

/** A job that can be given back while its work goes on. */
function heldJob(jobs: Pick<JobQueue, 'giveBack'>, id: string, token: string | undefined) {
  let isGivenBack = false;
  return {
    isGivenBack: () => isGivenBack,
    async giveBack() {
      await jobs.giveBack(id, token);
      isGivenBack = true;
    },
  };
}

function close(worker: Worker): Promise<void> {
  return worker.close().catch(ignore);
}

/** Waits neither for jobs nor for Redis. */
function end({ worker, connection, endRests }: ConnectedWorker): void {
  endRests();
  worker.close(true).catch(ignore);
  worker.disconnect().catch(ignore);
  connection.disconnect();
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Resolves with the work or after `ms`, because Redis may be away. */
async function orAfter(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  let cancel = (): void => {};
  const over = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve);
  });
  await Promise.race([work, over]);
  cancel();
}
