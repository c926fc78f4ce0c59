import { capability } from '../component/capability.ts';
import type { DurableQueue, QueueEntry, QueueOptions } from './queue.ts';

/**
 * A durable queue that any number of processes share. A process may append to a queue without knowing the branches
 * of its consumers: the batches wait until another process moves them into its own queue with `take`.
 *
 *   append ──▶ waiting in `from` ──take──▶ waiting, or leased, in the branches of this queue
 */
export type SharedQueue = DurableQueue & {
  /**
   * Moves a batch that waits in the queue `from` into every branch of this queue atomically, and leases it for the
   * given branches. Calls of one event-loop turn share a transaction. Resolves with the leased entries by branch;
   * the map is empty if the batch does not wait in `from` any more.
   */
  take(
    from: string,
    batchId: string,
    branches: readonly string[],
  ): Promise<ReadonlyMap<string, QueueEntry>>;
  /** Sorted ids, greater than `after`, of waiting batches received before `before` (milliseconds since the epoch). */
  waitingSince(before: number, limit: number, after?: string): Promise<readonly string[]>;
};

export type SharedQueueStorage = {
  openQueue(options: QueueOptions): Promise<SharedQueue>;
  /** Runs the work unless another process runs work of this name; resolves with whether it ran. */
  withAdvisoryLock(name: string, work: () => Promise<void>): Promise<boolean>;
};

/** Offered by stores whose queues several processes share. */
export const SHARED_QUEUES = capability<SharedQueueStorage>('shared_queues');
