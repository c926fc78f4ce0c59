import { capability } from '../component/capability.ts';
import type { DurableQueue, QueueEntry, QueueOptions } from './queue.ts';

/**
 * A durable queue that any number of processes share. One may append to a queue whose branches it does not
 * know: the batches wait there until another process, told by whatever means, takes them into its own.
 *
 *   append ──▶ waiting in `from` ──take──▶ waiting, or leased, in the branches of this queue
 */
export type SharedQueue = DurableQueue & {
  /**
   * Moves a batch that waits in the queue `from` into every branch of this one, in one step, leased here
   * where `branches` names the branch. Calls of one turn go together. Resolves with what is leased, per
   * branch: nothing of a batch that does not wait there any more.
   */
  take(
    from: string,
    batchId: string,
    branches: readonly string[],
  ): Promise<ReadonlyMap<string, QueueEntry>>;
  /**
   * Ids, in their order, of batches received before `before` (milliseconds since the epoch) that still
   * wait; those that follow `after`, where it is given.
   */
  waitingSince(before: number, limit: number, after?: string): Promise<readonly string[]>;
};

export type SharedQueueStorage = {
  openQueue(options: QueueOptions): Promise<SharedQueue>;
  /** Runs the work where no other process runs work of this name; resolves with whether it ran. */
  withAdvisoryLock(name: string, work: () => Promise<void>): Promise<boolean>;
};

/** Offered by stores whose queues processes share. */
export const SHARED_QUEUES = capability<SharedQueueStorage>('shared_queues');
