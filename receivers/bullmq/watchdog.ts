import type { JobQueue } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { ProcessEnd } from '../../src/component/process-end.ts';
import type { Waits } from '../../src/component/waits.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
import type { Progress } from './progress.ts';

/** The state of a worker, for its health. */
export type WorkerProgress = {
  /** Jobs that wait. */
  readonly backlog: number;
  readonly running: number;
  /** Milliseconds since the epoch; undefined before the first job. */
  readonly lastStartedAt: number | undefined;
  /** Jobs wait, the worker has room, and it starts none. */
  readonly isStalled: boolean;
  /** Work is in flight, and for `stallTimeout` the worker made no progress. */
  readonly isHung: boolean;
  /** How often a stalled worker was replaced. */
  readonly restarts: number;
};

export type WatchdogOptions = {
  readonly redis: Pick<RedisConnection, 'onState'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly jobs: Pick<JobQueue, 'waiting'>;
  readonly concurrency: number;
  /** Milliseconds. */
  readonly stallTimeout: number;
  readonly progressTimeout: number;
  readonly deliveryTimeout: number;
  /** Longest wait before a retry. */
  readonly retryInterval: number;
  readonly progress: Progress;
  readonly waits: Waits;
  readonly processEnd: ProcessEnd;
  /** Jobs in flight. */
  readonly running: () => number;
  /** Deliveries in flight. */
  readonly delivering: () => number;
  /** Whether every exporter rests after failures, so that no progress is due. */
  readonly isResting: () => boolean;
  /** Replaces the worker by a new one. */
  readonly replace: () => void;
};

export type Watchdog = {
  started(): void;
  progress(): WorkerProgress;
  stop(): void;
};

const CHECKS_PER_TIMEOUT = 6;
const AFTER_OUTAGE_MS = 6000;
/** Work that was abandoned, and is not retried this long after its retry was due, went to another worker. */
const IDLE_MS = 10_000;
/** Longest lasting waits in a log line. */
const LOGGED_WAITS = 5;

/**
 * Checks regularly for two faults:
 *
 *   stalled   jobs wait, the worker has room and starts none     ─▶ another worker replaces it
 *   hung      work is in flight, and none of it ever ends        ─▶ the process ends, and is started again
 *
 * Every wait of a job has a bound, so a worker hangs only if a bound fails or work exceeds its bound every time.
 */
export function startWatchdog(options: WatchdogOptions): Watchdog {
  const { clock, running } = options;
  const stall = watchForStall(options);
  const hang = watchForHang(options);
  let lastStartedAt: number | undefined;
  return {
    started() {
      lastStartedAt = clock.now();
      stall.started();
      hang.started();
    },
    progress: () => ({
      ...stall.state(),
      ...{ running: running(), lastStartedAt },
      isHung: hang.quietMs() >= options.stallTimeout,
    }),
    stop() {
      stall.stop();
      hang.stop();
    },
  };
}

type StallWatch = {
  started(): void;
  state(): Pick<WorkerProgress, 'backlog' | 'isStalled' | 'restarts'>;
  stop(): void;
};

/** Replaces a worker that starts no job although jobs wait and it has room. */
function watchForStall(options: WatchdogOptions): StallWatch {
  const { clock, logger, redis, stallTimeout, jobs, running, concurrency } = options;
  let backlog = 0;
  let restarts = 0;
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
      if (!isDue()) quietSince = clock.now();
      else if (isStalled() && !isStopped) restart();
    } catch {
      // While Redis is away the worker cannot start jobs.
      quietSince = clock.now();
    }
    if (!isStopped) cancel = later();
  }

  /** Whether the worker has to start a job. */
  function isDue(): boolean {
    return backlog > 0 && running() < concurrency;
  }

  function isStalled(): boolean {
    return isDue() && clock.now() - quietSince >= quietTimeout;
  }

  function restart(): void {
    logger.error({ backlog }, 'Worker starts no waiting job; replaced');
    restarts++;
    quietSince = clock.now();
    options.replace();
  }

  return {
    started() {
      quietTimeout = stallTimeout;
      quietSince = clock.now();
    },
    state: () => ({ backlog, isStalled: isStalled(), restarts }),
    stop() {
      isStopped = true;
      unsubscribe();
      cancel();
    },
  };
}

type HangWatch = {
  started(): void;
  /** Milliseconds that work has been in flight without progress. */
  quietMs(): number;
  stop(): void;
};

/** Ends the process if work is in flight and none of it ever ends. Needs no answer of Redis, which may be what hangs. */
function watchForHang(options: WatchdogOptions): HangWatch {
  const { clock, logger, progressTimeout, progress, running, delivering } = options;
  /** When nothing was in flight, or due, for the last time. */
  let idleAt = clock.now();
  let isEnding = false;
  let cancel = later();

  function later(): () => void {
    return clock.after(progressTimeout / CHECKS_PER_TIMEOUT, check);
  }

  function check(): void {
    cancel = later();
    // A delivery may legitimately take as long as its own bound.
    const isDelivering = delivering() > 0;
    const timeout = isDelivering
      ? Math.max(progressTimeout, options.deliveryTimeout)
      : progressTimeout;
    const isBusy = running() + delivering() > 0;
    if (isBusy && quietMs() >= timeout && !isEnding) end();
  }

  function quietMs(): number {
    if (options.isResting() || (running() + delivering() === 0 && isIdle())) idleAt = clock.now();
    return clock.now() - Math.max(idleAt, progress.lastAt);
  }

  /** Between abandoned work and its retry nothing is in flight, and yet the worker has work. */
  function isIdle(): boolean {
    const { abandonedAt } = progress;
    return (
      abandonedAt === undefined || clock.now() - abandonedAt >= options.retryInterval + IDLE_MS
    );
  }

  function end(): void {
    isEnding = true;
    const waits = options.waits
      .lasting()
      .slice(0, LOGGED_WAITS)
      .map(({ wait, lasts, abandoned }) => ({ wait, lastsMs: lasts, abandoned }));
    const fields = { jobs: running(), deliveries: delivering(), quietMs: quietMs(), waits };
    logger.error(fields, 'Worker makes no progress; the process ends with status 75');
    options.processEnd.end('stalled');
  }

  return {
    started() {
      // The job that starts is counted already.
      if (running() <= 1 && delivering() === 0 && isIdle()) idleAt = clock.now();
    },
    quietMs,
    stop: () => cancel(),
  };
}
