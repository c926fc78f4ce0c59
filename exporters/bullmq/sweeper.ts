import type { JobQueue, NewJob } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { SharedQueue, SharedQueueStorage, WorkLease } from '../../src/queue/shared-queue.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';

type SweeperOptions = {
  /** Name of the queue. */
  readonly name: string;
  readonly queue: Pick<SharedQueue, 'waitingFor'>;
  readonly jobs: Pick<JobQueue, 'addAll' | 'recreateLost' | 'count'>;
  readonly storage: Pick<SharedQueueStorage, 'withLease'>;
  readonly redis: Pick<RedisConnection, 'state' | 'onState'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds. */
  readonly interval: number;
};

type Sweeper = { stop(): Promise<void> };

/** A batch of this age whose job is not in Redis needs a new job. */
const OVERDUE_MS = 3000;
const PAGE = 500;

/**
 * Adds jobs for batches that wait in the store without a job, because Redis was away or lost the job. Existing jobs
 * are left unchanged, so a needless sweep is cheap and harmless. One replica sweeps at a time, under a lease: a frozen
 * one loses it.
 */
export function startSweeper(options: SweeperOptions): Sweeper {
  const { name, storage, redis, clock, logger, interval } = options;
  let isStopped = false;
  let sweeping: Promise<void> | undefined;
  let cancel = clock.after(interval, run);
  const unsubscribe = redis.onState(({ connected }) => {
    if (connected) soon();
  });

  /** Batches that were accepted during an outage do not wait for the next regular sweep. */
  function soon(): void {
    cancel();
    if (!isStopped) cancel = clock.after(Math.min(interval, OVERDUE_MS), run);
  }

  function run(): void {
    // One sweep at a time; a running sweep does not see the newest batches.
    if (sweeping !== undefined) {
      soon();
      return;
    }
    sweeping = sweep().finally(() => {
      sweeping = undefined;
      cancel();
      if (!isStopped) cancel = clock.after(interval, run);
    });
  }

  async function sweep(): Promise<void> {
    if (!redis.state().connected) return;
    try {
      await storage.withLease(`sweep/${name}`, (lease) =>
        sweepOnce(options, lease, () => isStopped),
      );
    } catch (error) {
      logger.warn({ err: error }, 'Sweep for lost jobs failed');
    }
  }

  return {
    async stop() {
      isStopped = true;
      unsubscribe();
      cancel();
      await sweeping;
    },
  };
}

async function sweepOnce(
  { queue, jobs, logger }: SweeperOptions,
  lease: WorkLease,
  isStopped: () => boolean,
): Promise<void> {
  const known = await jobs.count();
  let seen = 0;
  for (let after = ''; !isStopped(); ) {
    const ids = await queue.waitingFor(OVERDUE_MS, PAGE, after);
    const wanted = ids.map((batchId) => ({ batchId, data: { batch: batchId } }));
    await lease.renew();
    await jobs.addAll(wanted);
    seen += ids.length;
    // Redis may have lost the list of BullMQ but not the jobs, which can then not be added again.
    if ((await jobs.count()) < seen) {
      await lease.renew();
      await recreateLost(wanted, jobs, logger);
    }
    after = ids.at(-1) ?? after;
    if (ids.length < PAGE) break;
    // If the first batches had a job already, the rest of the backlog has too.
    if (seen >= PAGE && known > 0 && (await jobs.count()) === known) break;
  }
  const added = (await jobs.count()) - known;
  if (added > 0) logger.info({ jobs: added }, 'Added jobs missing from Redis');
}

async function recreateLost(
  wanted: readonly NewJob[],
  jobs: SweeperOptions['jobs'],
  logger: Logger,
): Promise<void> {
  const recreated = await jobs.recreateLost(wanted);
  if (recreated > 0)
    logger.warn({ jobs: recreated }, 'Recreated jobs missing from the lists in Redis');
}
