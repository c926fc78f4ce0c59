import type { Job, Worker } from 'bullmq';
import type { JobQueue } from '../../src/bullmq/job-queue.ts';
import { ignore } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { RedisClient, RedisConnection } from '../../src/redis/redis.ts';

export type WorkerOptions = {
  readonly redis: RedisConnection;
  readonly queue: string;
  readonly concurrency: number;
  /** Milliseconds. */
  readonly lockDuration: number;
  readonly stallTimeout: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The queue, over a connection that is not the worker's. */
  readonly jobs: Pick<JobQueue, 'waiting' | 'giveBack'>;
  /** Milliseconds after which the job is tried again; undefined when it is done. Rejects where it is none. */
  readonly work: (job: Job) => Promise<number | undefined>;
};

export type JobWorker = {
  /** What a report may say of it. */
  progress(): Progress;
  /** Waits for the jobs under way until the deadline; what is not done by then returns to the queue. */
  stop(deadline: AbortSignal): Promise<void>;
};

export type Progress = {
  readonly backlog: number;
  readonly underWay: number;
  /** Milliseconds since the epoch; undefined before the first. */
  readonly lastBegunAt: number | undefined;
  /** Jobs wait and none is begun. */
  readonly isStalled: boolean;
  /** Jobs are under way, and for `stallTimeout` none was begun or ended. */
  readonly isHung: boolean;
  /** How often the worker was made anew because of that. */
  readonly restarts: number;
};

const LOOKS_PER_TIMEOUT = 6;
const AFTER_OUTAGE_MS = 6000;
const GIVE_BACK_MS = 500;
/** A job is never given up, however often it was found without its worker. */
const FOR_EVER = 2_147_483_647;

type Running = { readonly worker: Worker; readonly connection: RedisClient };

/**
 * A worker of BullMQ that is watched: one that looks alive and takes nothing, as happens when Redis lost
 * its scripts and locks, is replaced.
 */
export async function startWorker(options: WorkerOptions): Promise<JobWorker> {
  const { DelayedError, UnrecoverableError, Worker } = await import('bullmq');
  const { redis, jobs, clock, logger } = options;
  const underWay = new Map<Job, string | undefined>();
  let onFinished = ignore;
  let running = begin();

  function begin(): Running {
    const connection = redis.duplicate();
    connection.on('error', ignore);
    const worker = new Worker(options.queue, carryOut, {
      connection,
      prefix: redis.prefix,
      concurrency: options.concurrency,
      lockDuration: options.lockDuration,
      stalledInterval: Math.max(1000, options.lockDuration / 2),
      maxStalledCount: FOR_EVER,
      removeOnComplete: { count: 0 },
      skipVersionCheck: true,
      skipWaitingForReady: true,
    });
    worker.on('error', (error) => logger.debug({ error }, 'the worker of the queue'));
    return { worker, connection };
  }

  async function carryOut(job: Job, token?: string): Promise<void> {
    underWay.set(job, token);
    watch.begun();
    try {
      const delay = await options.work(job);
      if (delay === undefined) return;
      // Not a failed attempt: the world's faults use up nothing.
      await job.moveToDelayed(clock.now() + delay, token);
      throw new DelayedError();
    } catch (error) {
      if (error instanceof PermanentError) throw new UnrecoverableError(error.message);
      throw error;
    } finally {
      underWay.delete(job);
      watch.ended();
      if (underWay.size === 0) onFinished();
    }
  }

  async function finished(): Promise<void> {
    if (underWay.size === 0) return;
    await new Promise<void>((resolve) => {
      onFinished = resolve;
    });
  }

  const watch = watchProgress(
    options,
    () => underWay.size,
    () => {
      end(running);
      running = begin();
    },
  );

  return {
    progress: watch.progress,
    async stop(deadline) {
      watch.stop();
      // It takes no more. Closing it now would wait for its jobs, and could not be cut short.
      running.worker.pause(true).catch(ignore);
      await Promise.race([finished(), aborted(deadline)]);
      if (underWay.size === 0) await orAfter(clock, GIVE_BACK_MS, close(running.worker));
      // A worker that waits for jobs would take, and keep, what is given back: it ends before.
      end(running);
      // Now, not when their locks have expired.
      const back = [...underWay].map(([{ id = '' }, token]) => jobs.giveBack(id, token));
      if (back.length > 0) await orAfter(clock, GIVE_BACK_MS, Promise.allSettled(back));
    },
  };
}

type Watch = { begun(): void; ended(): void; progress(): Progress; stop(): void };

/** Looks now and then whether jobs wait and none is begun; `replace` makes a new worker. */
function watchProgress(
  { clock, logger, redis, stallTimeout, jobs }: WorkerOptions,
  underWay: () => number,
  replace: () => void,
): Watch {
  let backlog = 0;
  let restarts = 0;
  let lastBegunAt: number | undefined;
  /** A job was begun, or ended. */
  let lastMovedAt = clock.now();
  let quietSince = clock.now();
  let isStopped = false;
  /** After an outage a worker has less time to prove itself. */
  let patience = stallTimeout;
  let cancel = later();
  const unsubscribe = redis.onState(({ connected }) => {
    patience = Math.min(stallTimeout, AFTER_OUTAGE_MS);
    quietSince = clock.now();
    cancel();
    if (connected && !isStopped) cancel = later();
  });

  function later(): () => void {
    return clock.after(patience / LOOKS_PER_TIMEOUT, () => void look());
  }

  async function look(): Promise<void> {
    try {
      backlog = await jobs.waiting();
      if (backlog === 0 || underWay() > 0) quietSince = clock.now();
      else if (isStalled() && !isStopped) restart();
    } catch {
      // Redis is away: nothing can be begun, and nothing is the worker's fault.
      quietSince = clock.now();
    }
    if (!isStopped) cancel = later();
  }

  function isStalled(): boolean {
    return backlog > 0 && clock.now() - quietSince >= patience;
  }

  function restart(): void {
    logger.error({ backlog }, 'jobs wait and none is begun: a new worker is made');
    restarts++;
    quietSince = clock.now();
    replace();
  }

  return {
    begun() {
      lastBegunAt = clock.now();
      patience = stallTimeout;
      quietSince = lastBegunAt;
      lastMovedAt = lastBegunAt;
    },
    ended() {
      lastMovedAt = clock.now();
    },
    progress: () => ({
      backlog,
      underWay: underWay(),
      lastBegunAt,
      isStalled: isStalled(),
      isHung: underWay() > 0 && clock.now() - lastMovedAt >= stallTimeout,
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

/** Without waiting for jobs, nor for a Redis that is away. */
function end({ worker, connection }: Running): void {
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

/** Redis may be away. */
async function orAfter(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  let cancel = (): void => {};
  const over = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve);
  });
  await Promise.race([work, over]);
  cancel();
}
