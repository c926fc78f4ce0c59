import type { Clock, Logger, Metrics } from '../component/component.ts';
import type { ServicePhase } from '../component/health.ts';
import { ControlError } from '../control/protocol.ts';
import { createWorkersHandler } from './commands.ts';
import type { FirstInStore, Shown } from './messages.ts';
import type { MetricPage } from './metric-pages.ts';
import type { Exit, WorkerProcess } from './worker-handle.ts';
import { WorkerGone, WorkerHandle } from './worker-handle.ts';

/**
 * Runs the worker processes, and restarts those that end:
 *
 *   start ─▶ all ready ─▶ … a worker ends ─▶ backoff ─▶ restart … ─▶ stop
 *     │                       └─ one that does not report for a minute is killed
 *     └─ a worker exits before it was ready, or crashes repeatedly: all stop
 */
export type Supervisor = {
  readonly workers: readonly WorkerHandle[];
  /** `running` from the first moment in which all workers were ready, until the stop. */
  readonly phase: ServicePhase;
  /** Resolves when all workers are ready. Rejects with `WorkersFailed` when one cannot start. */
  start(): Promise<void>;
  /** The facts for the welcome text, over all workers. */
  shown(): Shown;
  /** The metrics pages of the workers that answer. */
  metricPages(): Promise<MetricPage[]>;
  /** Stops all workers, and kills those that run longer than the deadline. True when none was killed. */
  stop(patience: number): Promise<boolean>;
  /** Kills all workers. */
  kill(): void;
};

/** A worker could not start. The worker itself has printed the reason. */
export class WorkersFailed extends Error {
  override readonly name = 'WorkersFailed';
  /** The exit status of the worker. */
  readonly status: number;

  constructor(index: number, exit: Exit) {
    super(`worker ${index} cannot start (${describe(exit)})`);
    this.status = exit.code ?? 1;
  }
}

/** Crashes in a row, before all workers were ready, after which the start fails. */
const MAX_CRASHES = 5;
/** Exit statuses of a fault and of a standstill, which a restart may not repeat, as opposed to an error. */
const FAULTS = [70, 75];
const ANSWER_MS = 5_000;
/** Milliseconds between two checks whether each worker has reported. */
const CHECK_MS = 5_000;
/**
 * Checks in a row without a report after which a worker is killed: its event loop is stuck, and the kernel still assigns connections to
 * it. Checks are counted, not milliseconds: after a pause of the machine no worker has reported for long.
 */
const MOST_SILENT_CHECKS = 12;

export function createSupervisor(options: {
  readonly count: number;
  readonly spawn: (index: number) => WorkerProcess;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}): Supervisor {
  const { count, spawn, clock, logger } = options;
  const started = Promise.withResolvers<void>();
  let phase: ServicePhase = 'starting';
  const restarts = options.metrics.counter(
    'tracectl_worker_restarts_total',
    'Restarts of a worker that had ended.',
  );

  function onReady(): void {
    if (phase !== 'starting' || workers.some(({ state }) => state !== 'ready')) return;
    phase = 'running';
    started.resolve();
  }

  function onEnd(index: number, exit: Exit, endsInRow: number): boolean {
    const isError = exit.code !== null && !FAULTS.includes(exit.code);
    if (phase === 'running' || (!isError && endsInRow < MAX_CRASHES)) {
      restarts.add(1, { worker: String(index) });
      return true;
    }
    started.reject(new WorkersFailed(index, exit));
    return false;
  }

  const workers = Array.from({ length: count }, (_, i) => {
    const index = i + 1;
    restarts.add(0, { worker: String(index) });
    return new WorkerHandle({
      ...{ index, clock, logger, onReady },
      onCommand: (request) => handler(request),
      spawn: () => spawn(index),
      onEnd: (exit, endsInRow) => onEnd(index, exit, endsInRow),
    });
  });
  register(options.metrics, workers);
  const handler = createWorkersHandler({ workers, reload: refuseReload });
  let endWatch = (): void => {};

  return {
    workers,
    get phase() {
      return phase;
    },
    start() {
      for (const worker of workers) worker.start();
      endWatch = watchSilence(workers, clock, logger);
      return started.promise;
    },
    shown() {
      const all = workers.flatMap(({ shown }) => shown ?? []);
      return {
        endpoints: all[0]?.endpoints ?? [],
        managed: all.flatMap(({ managed }) => managed),
        firsts: firstsOf(all.flatMap(({ firsts }) => firsts)),
        hasStore: all.some(({ hasStore }) => hasStore),
      };
    },
    async metricPages() {
      const pages = await Promise.all(workers.map((worker) => pageOf(worker, clock, logger)));
      return pages.flatMap((page) => page ?? []);
    },
    stop(patience) {
      phase = 'stopping';
      endWatch();
      return stopAll(workers, patience, clock, logger);
    },
    kill() {
      endWatch();
      for (const worker of workers) worker.kill();
    },
  };
}

/** As the worker that created the store tells it: workers that start beside it may find the kept token. */
function firstsOf(told: readonly FirstInStore[]): FirstInStore[] {
  const byKey = new Map<string, FirstInStore>();
  for (const first of told) {
    if (!first.isRecovered || !byKey.has(first.key.id)) byKey.set(first.key.id, first);
  }
  return [...byKey.values()];
}

/** Kills workers that do not report. Returns a function that ends it. */
function watchSilence(workers: readonly WorkerHandle[], clock: Clock, logger: Logger): () => void {
  let cancel = clock.after(CHECK_MS, check);
  function check(): void {
    for (const worker of workers) {
      if (worker.checkSilence() < MOST_SILENT_CHECKS) continue;
      logger.error({ worker: worker.index }, 'Worker does not report and is killed');
      worker.kill();
    }
    cancel = clock.after(CHECK_MS, check);
  }
  return () => cancel();
}

/** A worker that takes part in a reload cannot wait for it. */
async function refuseReload(): Promise<never> {
  throw new ControlError('unknown_command', 'a worker cannot reload the daemon');
}

function register(metrics: Metrics, workers: readonly WorkerHandle[]): void {
  metrics.gauge('tracectl_worker_up', '1 while a worker is ready for requests, else 0.', () =>
    workers.map(({ state, index }) => ({
      value: state === 'ready' ? 1 : 0,
      labels: { worker: String(index) },
    })),
  );
}

/** Undefined when the worker is not running, or does not answer in time. */
async function pageOf(
  worker: WorkerHandle,
  clock: Clock,
  logger: Logger,
): Promise<MetricPage | undefined> {
  const late = Promise.withResolvers<never>();
  const cancel = clock.after(ANSWER_MS, () => late.reject(new WorkerGone('no answer in time')));
  try {
    const text = await Promise.race([worker.ask({ kind: 'metrics' }), late.promise]);
    return { worker: String(worker.index), text: String(text) };
  } catch (error) {
    logger.debug({ worker: worker.index, err: error }, 'Worker did not return its metrics');
    return undefined;
  } finally {
    cancel();
  }
}

async function stopAll(
  workers: readonly WorkerHandle[],
  patience: number,
  clock: Clock,
  logger: Logger,
): Promise<boolean> {
  const cancel = clock.after(patience, () => {
    for (const worker of workers.filter(({ pid }) => pid !== undefined)) {
      logger.error({ worker: worker.index }, 'Worker did not stop in time and is killed');
      worker.kill();
    }
  });
  const exits = await Promise.all(workers.map((worker) => worker.stop()));
  cancel();
  // A worker that the signal itself ended had not installed its handler yet.
  return exits.every(({ code, signal }) => code === 0 || signal === 'SIGTERM');
}

function describe({ code, signal }: Exit): string {
  return code === null ? `ended by ${signal}` : `status ${code}`;
}
