import { pointerTo } from '../../src/bullmq/job-data.ts';
import type { JobQueue, NewJob } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { SharedQueue, SharedQueueStorage, WorkLease } from '../../src/queue/shared-queue.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';

type SweeperOptions = {
  /** Name of the queue. */
  readonly name: string;
  readonly queue: Pick<SharedQueue, 'waitingFor'>;
  readonly jobs: Pick<JobQueue, 'addAll' | 'announced' | 'recreateLost' | 'count'>;
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
 * are left unchanged, so a needless sweep is harmless. One replica sweeps at a time, under a lease: a frozen
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
  let seen = 0;
  let added = 0;
  let before: ReadonlySet<string> = new Set();
  for (let after = ''; !isStopped(); ) {
    const ids = await queue.waitingFor(OVERDUE_MS, PAGE, after);
    if (ids.length === 0) break;
    // Jobs and ids are in the order of acceptance, and a job has at least one batch: of the pages before, at most so many
    // jobs are left. Jobs of several gateways may be a little out of order.
    const announced = await jobs.announced(seen, PAGE);
    const missing = ids.filter((id) => !announced.has(id) && !before.has(id));
    // If the first batches have a job, the rest of the backlog has one too.
    if (missing.length === 0 && ids.length === PAGE) break;
    if (missing.length > 0) added += await addMissing(missing, { jobs, logger }, lease);
    before = announced;
    seen += ids.length;
    after = ids.at(-1) ?? after;
    if (ids.length < PAGE) break;
  }
  if (added > 0) logger.info({ jobs: added }, 'Added jobs missing from Redis');
}

/** Resolves with the number of new jobs. */
async function addMissing(
  batchIds: readonly string[],
  { jobs, logger }: Pick<SweeperOptions, 'jobs' | 'logger'>,
  lease: WorkLease,
): Promise<number> {
  const wanted = batchIds.map((batchId) => ({ batchId, data: pointerTo([batchId]) }));
  const known = await jobs.count();
  await lease.renew();
  await jobs.addAll(wanted);
  const added = Math.max(0, (await jobs.count()) - known);
  // Redis may have lost the list of BullMQ but not the jobs, which can then not be added again.
  if (added < wanted.length) {
    await lease.renew();
    await recreateLost(wanted, jobs, logger);
  }
  return added;
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
