import type { Job, Worker } from 'bullmq';
import type { JobQueue } from '../../src/bullmq/job-queue.ts';
import { ignore } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { RedisClient, RedisConnection } from '../../src/redis/redis.ts';

type WorkerOptions = {
  readonly redis: RedisConnection;
  readonly queue: string;
  readonly concurrency: number;
  /** Milliseconds. */
  readonly lockDuration: number;
  readonly stallTimeout: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The queue, over another connection than the worker's. */
  readonly jobs: Pick<JobQueue, 'waiting' | 'delay' | 'giveBack'>;
  /**
   * Resolves with the milliseconds until the job is due again, 0 if it is due at once, undefined if it is done. Rejects with a
   * `PermanentError` if the job is invalid.
   */
  readonly work: (job: Job) => Promise<number | undefined>;
};

export type JobWorker = {
  progress(): WorkerProgress;
  /** Waits for the running jobs until the deadline, then returns them to the queue. */
  stop(deadline: AbortSignal): Promise<void>;
};

/** The state of a worker, for its health. */
export type WorkerProgress = {
  /** Jobs that wait. */
  readonly backlog: number;
  readonly running: number;
  /** Milliseconds since the epoch; undefined before the first job. */
  readonly lastStartedAt: number | undefined;
  /** Jobs wait, and the worker starts none. */
  readonly isStalled: boolean;
  /** Jobs run, and for `stallTimeout` none started or ended. */
  readonly isHung: boolean;
  /** How often a stalled worker was replaced. */
  readonly restarts: number;
};

const CHECKS_PER_TIMEOUT = 6;
const AFTER_OUTAGE_MS = 6000;
const RETURN_JOBS_MS = 500;
/** BullMQ fails a job that stalled more often than this; a job is never given up. */
const UNLIMITED = 2_147_483_647;

type ConnectedWorker = { readonly worker: Worker; readonly connection: RedisClient };

/**
 * Starts a BullMQ worker and watches it. A worker that is connected but takes no jobs, as happens after Redis lost its
 * scripts and locks, is replaced.
 */
export async function startWorker(options: WorkerOptions): Promise<JobWorker> {
  const { DelayedError, UnrecoverableError, WaitingError, Worker } = await import('bullmq');
  const { redis, jobs, clock, logger } = options;
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
    worker.on('error', (error) => logger.debug({ err: error }, 'BullMQ worker failed'));
    return { worker, connection };
  }

  async function run(job: Job, token?: string): Promise<void> {
    running.set(job, token);
    watch.started();
    try {
      const delay = await options.work(job);
      if (delay === undefined) return;
      // Delayed instead of failed, so that the job does not use up an attempt.
      if (delay > 0) {
        await jobs.delay(job.id ?? '', token, delay, clock.now());
        throw new DelayedError();
      }
      await jobs.giveBack(job.id ?? '', token);
      throw new WaitingError();
    } catch (error) {
      if (error instanceof PermanentError) throw new UnrecoverableError(error.message);
      throw error;
    } finally {
      running.delete(job);
      watch.ended();
      if (running.size === 0) onFinished();
    }
  }

  async function finished(): Promise<void> {
    if (running.size === 0) return;
    await new Promise<void>((resolve) => {
      onFinished = resolve;
    });
  }

  const watch = watchProgress(
    options,
    () => running.size,
    () => {
      end(current);
      current = connect();
    },
  );

  return {
    progress: watch.progress,
    async stop(deadline) {
      watch.stop();
      // Takes no further jobs. `close` would wait for the running jobs without a deadline.
      current.worker.pause(true).catch(ignore);
      await Promise.race([finished(), aborted(deadline)]);
      if (running.size === 0) await orAfter(clock, RETURN_JOBS_MS, close(current.worker));
      // Ends first, because a worker that waits for jobs would take the returned jobs.
      end(current);
      // Returns the jobs now instead of when their locks expire.
      const back = [...running].map(([{ id = '' }, token]) => jobs.giveBack(id, token));
      if (back.length > 0) await orAfter(clock, RETURN_JOBS_MS, Promise.allSettled(back));
    },
  };
}

type Watch = { started(): void; ended(): void; progress(): WorkerProgress; stop(): void };

/** Checks regularly whether jobs wait and none starts, and then calls `replace`. */
function watchProgress(
  { clock, logger, redis, stallTimeout, jobs }: WorkerOptions,
  running: () => number,
  replace: () => void,
): Watch {
  let backlog = 0;
  let restarts = 0;
  let lastStartedAt: number | undefined;
  /** When a job last started or ended. */
  let lastMovedAt = clock.now();
  let quietSince = clock.now();
  let isStopped = false;
  /** How long a worker may be quiet; shorter after an outage, until it starts a job. */
  let quietTimeout = stallTimeout;
  let cancel = later();
  const unsubscribe = redis.onState(({ connected }) => {
    quietTimeout = Math.min(stallTimeout, AFTER_OUTAGE_MS);
    quietSince = clock.now();
    cancel();
    if (connected && !isStopped) cancel = later();
  });

  function later(): () => void {
    return clock.after(quietTimeout / CHECKS_PER_TIMEOUT, () => void check());
  }

  async function check(): Promise<void> {
    try {
      backlog = await jobs.waiting();
      if (backlog === 0 || running() > 0) quietSince = clock.now();
      else if (isStalled() && !isStopped) restart();
    } catch {
      // While Redis is away the worker cannot start jobs.
      quietSince = clock.now();
    }
    if (!isStopped) cancel = later();
  }

  function isStalled(): boolean {
    return backlog > 0 && clock.now() - quietSince >= quietTimeout;
  }

  function restart(): void {
    logger.error({ backlog }, 'Worker starts no waiting job; replaced');
    restarts++;
    quietSince = clock.now();
    replace();
  }

  return {
    started() {
      lastStartedAt = clock.now();
      quietTimeout = stallTimeout;
      quietSince = lastStartedAt;
      lastMovedAt = lastStartedAt;
    },
    ended() {
      lastMovedAt = clock.now();
    },
    progress: () => ({
      backlog,
      running: running(),
      lastStartedAt,
      isStalled: isStalled(),
      isHung: running() > 0 && clock.now() - lastMovedAt >= stallTimeout,
      restarts,
    }),
    stop() {
      isStopped = true;
      unsubscribe();
      cancel();
    },
  };
}

function close(worker: Worker): Promise<void> {
  return worker.close().catch(ignore);
}

/** Waits neither for jobs nor for Redis. */
function end({ worker, connection }: ConnectedWorker): void {
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
