import type { JobQueue, NewJob } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { SharedQueue, SharedQueueStorage } from '../../src/queue/shared-queue.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';

export type SweeperOptions = {
  /** Of the queue. */
  readonly name: string;
  readonly queue: SharedQueue;
  readonly jobs: JobQueue;
  readonly storage: SharedQueueStorage;
  readonly redis: RedisConnection;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds. */
  readonly interval: number;
};

export type Sweeper = { stop(): Promise<void> };

/** A batch whose job has not come to Redis after this long is not on its way any more. */
const OVERDUE_MS = 3000;
const PAGE = 500;

/**
 * Finds batches that wait in the store and have no job, because Redis was away or lost it, and gives them
 * one. A job that is there already is left as it is, so that looking too often costs little and harms
 * nothing; one replica looks at a time.
 */
export function startSweeper(options: SweeperOptions): Sweeper {
  const { name, storage, redis, clock, logger, interval } = options;
  let isStopped = false;
  let sweeping: Promise<void> | undefined;
  let cancel = clock.after(interval, run);
  const unsubscribe = redis.onState(({ connected }) => {
    if (connected) soon();
  });

  /** Redis is back: what was accepted meanwhile need not wait for the next round. */
  function soon(): void {
    cancel();
    if (!isStopped) cancel = clock.after(Math.min(interval, OVERDUE_MS), run);
  }

  function run(): void {
    // One round at a time: one that is under way looks at what came before it, and the next one soon.
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
      await storage.withAdvisoryLock(`sweep/${name}`, () => sweepOnce(options, () => isStopped));
    } catch (error) {
      logger.warn({ error }, 'jobs that Redis lost could not be looked for');
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
  { queue, jobs, clock, logger }: SweeperOptions,
  isStopped: () => boolean,
): Promise<void> {
  const before = clock.now() - OVERDUE_MS;
  const known = await jobs.count();
  let seen = 0;
  for (let after = ''; !isStopped(); ) {
    const ids = await queue.waitingSince(before, PAGE, after);
    const wanted = ids.map((batchId) => ({ batchId, data: { batch: batchId } }));
    await jobs.addAll(wanted);
    seen += ids.length;
    // Redis may have dropped the list and not the jobs, which then cannot be added.
    if ((await jobs.count()) < seen) await mend(wanted, jobs, logger);
    after = ids.at(-1) ?? after;
    if (ids.length < PAGE) break;
    // Where Redis had a job for each already, the rest of the backlog is sound too.
    if (seen >= PAGE && known > 0 && (await jobs.count()) === known) break;
  }
  const added = (await jobs.count()) - known;
  if (added > 0) logger.info({ jobs: added }, 'jobs were made that Redis did not have');
}

async function mend(wanted: readonly NewJob[], jobs: JobQueue, logger: Logger): Promise<void> {
  const mended = await jobs.recreateLost(wanted);
  if (mended > 0) logger.warn({ jobs: mended }, 'jobs were made anew that Redis had in no list');
}
