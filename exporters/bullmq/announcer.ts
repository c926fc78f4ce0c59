import { pointerTo } from '../../src/bullmq/job-data.ts';
import type { JobQueue } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';

/** Announces stored batches to the workers, as well as it can: the sweeper announces the others. */
export type Announcer = {
  announce(batch: SealedBatch): void;
  /** Resolves when the waiting batches are announced, or after a short time without Redis. */
  close(): Promise<void>;
};

/** Bounds of one job. A worker takes and delivers the batches of a job together, and another worker the next job. */
const MAX_BATCHES = 64;
const MAX_BYTES = 512 * 1024;
const MAX_ITEMS = 500;
/** Batches that wait for their job; the sweeper announces the batches beyond this number. */
const MAX_WAITING = 4096;
const CLOSE_MS = 1000;

/**
 * A job costs Redis, this process and the worker the same for one batch as for many. So batches share a job if they become
 * durable together, or while the job before is being added. A batch that comes alone never waits for others.
 */
export function startAnnouncer(
  jobs: Pick<JobQueue, 'add'>,
  clock: Clock,
  logger: Logger,
): Announcer {
  let waiting: SealedBatch[] = [];
  let adding: Promise<void> | undefined;

  function announce(batch: SealedBatch): void {
    if (waiting.length >= MAX_WAITING) return;
    waiting.push(batch);
    adding ??= addAll();
  }

  async function addAll(): Promise<void> {
    // Later, so that the other batches of the same transaction join.
    await new Promise(setImmediate);
    while (waiting.length > 0) await addNext();
    adding = undefined;
  }

  async function addNext(): Promise<void> {
    const count = countOfNext(waiting);
    const [first, ...others] = waiting.slice(0, count).map(({ id }) => id);
    waiting = waiting.slice(count);
    if (first === undefined) return;
    try {
      await jobs.add(first, pointerTo([first, ...others]));
    } catch (error) {
      const fields = { err: error, batch: first, batches: count };
      logger.debug(fields, 'Job could not be added; left to the sweeper');
    }
  }

  return {
    announce,
    async close() {
      if (adding === undefined) return;
      let cancel = (): void => {};
      const over = new Promise<void>((resolve) => {
        cancel = clock.after(CLOSE_MS, resolve);
      });
      await Promise.race([adding, over]);
      cancel();
    },
  };
}

/** How many batches the next job announces: at least one, however large it is. */
function countOfNext(waiting: readonly SealedBatch[]): number {
  let count = 0;
  let bytes = 0;
  let items = 0;
  for (const batch of waiting) {
    bytes += batch.body.byteLength;
    items += itemsOf(batch);
    const isFull = count >= MAX_BATCHES || bytes > MAX_BYTES || items > MAX_ITEMS;
    if (count > 0 && isFull) break;
    count++;
  }
  return count;
}
