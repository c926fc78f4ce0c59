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
  /** Sorted ids, greater than `after`, of batches that have waited for `ms` by the clock of the store. */
  waitingFor(ms: number, limit: number, after?: string): Promise<readonly string[]>;
  /** When the oldest batch in the queue `from` was received, in milliseconds since the epoch; undefined if it is empty. */
  oldestIn(from: string): Promise<number | undefined>;
};

export type SharedQueueStorage = {
  openQueue(options: QueueOptions): Promise<SharedQueue>;
  /** Runs the work unless another process holds the lease of this name; resolves with whether it ran. */
  withLease(name: string, work: (lease: WorkLease) => Promise<void>): Promise<boolean>;
};

/**
 * The right to do work that one process at a time does, by the clock of the store. A holder that stops renewing it, for
 * example because it is frozen, loses it within seconds.
 */
export type WorkLease = {
  /** Call before each step that writes. Rejects if another process has taken the lease; the work must not catch it. */
  renew(): Promise<void>;
};

/** Offered by stores whose queues several processes share. */
export const SHARED_QUEUES = capability<SharedQueueStorage>('shared_queues');
