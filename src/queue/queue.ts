import { capability } from '../component/capability.ts';
import type { IdempotencyLedger } from '../component/component.ts';
import type { SealedBatch } from '../model/batch.ts';
import type { RequestContext } from '../model/request-context.ts';

/**
 * The durable queue. An appended batch waits once per branch (one branch per exporter behind the queue), so a
 * slow exporter neither stalls the others nor repeats their deliveries. The batch is removed when every branch
 * has acknowledged or dead-lettered it.
 *
 *   append ──fsync──▶ waiting ──lease──▶ leased ──ack──▶ removed
 *                        ▲                 │ ├──nack(delay)──▶ waiting, due later
 *                        └──── crash ──────┘ └──deadLetter──▶ dead letter ──replay──▶ waiting
 *
 * It has three roles, one per user: a component in the accept path writes, delivery leases, commands and
 * metrics administrate.
 */
export interface DurableQueue extends QueueWriter, QueueLeases, QueueAdmin {
  stats(): QueueStats;
  /**
   * Since when the oldest entry that no delivery has tried waits, of a project or of all (milliseconds since the epoch).
   * Undefined without one. Branches whose exporter fails do not count. Absent if the queue does not know the projects of
   * its entries.
   */
  untriedSince?(project?: string): number | undefined;
  /** Reads and checks every entry; damaged entries are quarantined and counted. */
  verify(): Promise<{ entries: number; quarantined: number }>;
}

/** The accept path's side of a queue. */
export type QueueWriter = {
  /**
   * Makes the batch durable: bytes, usage entry and idempotency record in one transaction, synced to disk
   * before the promise resolves. Appends of one event-loop turn share a transaction. Of a batch without
   * items only the idempotency record is kept. `request`: see `Consumer`.
   * Rejects with `RetryableError`: `queue_full` (over `maxBytes`), `disk_full`, `storage_failed`.
   */
  append(batch: SealedBatch, request?: RequestContext): Promise<void>;
  readonly idempotency: IdempotencyLedger;
};

/** The delivering side of a queue. */
export type QueueLeases = {
  /**
   * Takes up to `max` due entries of a branch, oldest first, and about `maxBytes` of bodies (at least one entry if any is
   * due). Projects may take turns, and new entries may pass a long backlog from before a restart. A lease belongs to
   * this process and ends with ack, nack, deadLetter, discard or the end of the process. Resolves with an empty list if
   * no entry is due.
   */
  lease(branch: string, max: number, maxBytes: number): Promise<QueueEntry[]>;
  /**
   * Takes the next entry of a project without a lease in this branch, if one is due that has at most `maxBytes`. Absent
   * if the queue does not know the projects of its entries.
   */
  leaseOfIdle?(branch: string, maxBytes: number): Promise<QueueEntry[]>;
  /**
   * Whether this process still has the lease; asked before a delivery. After a freeze another process may have it.
   * Absent if no other process can take a lease.
   */
  isHeld?(branch: string, entry: QueueEntry): Promise<boolean>;
  /** The listener is called when `lease` may find an entry: after an append, a due retry or a replay. */
  onAvailable(branch: string, listener: () => void): () => void;
  /**
   * Ends the leases of delivered entries. The queue may write that up to `withinMs` later, together with other calls: after a crash
   * before that, the entries are delivered again.
   */
  ack(branch: string, entries: readonly QueueEntry[], withinMs?: number): Promise<void>;
  /** Returns an entry, due again after `delayMs`. The queue counts attempts and never limits them. */
  nack(branch: string, entry: QueueEntry, delayMs: number, reason: string): Promise<void>;
  /** Ends a lease by keeping the entry as a dead letter. */
  deadLetter(branch: string, entry: QueueEntry, reason: DeadLetterReason): Promise<void>;
  /** Ends a lease without a delivery, e.g. because the entry's project was deleted. */
  discard(branch: string, entry: QueueEntry, reason: DropReason): Promise<void>;
};

/** The side of a queue for commands, metrics and the removal of projects. */
export type QueueAdmin = {
  /** Set if other processes have the same queue, with the same numbers. */
  readonly isShared?: true;
  stats(): QueueSummary;
  /** The listener is called for every entry that leaves a branch, or its dead letters, without a delivery. */
  onDrop(listener: (drop: QueueDrop) => void): () => void;
  deadLetters(filter?: DeadLetterFilter): Promise<DeadLetter[]>;
  /** Puts dead letters back into their branches; resolves with their number. */
  replay(ids: readonly number[] | 'all'): Promise<number>;
  /** Deletes dead letters; resolves with their number. */
  drop(ids: readonly number[] | 'all'): Promise<number>;
  /**
   * Removes every entry and dead letter of a deleted project. Once the promise has resolved, the queue neither
   * accepts nor replays a batch of the project. The bytes leave the storage in steps after that.
   */
  removeProject(projectId: string): Promise<void>;
  /**
   * Cuts erased items out of the entries and dead letters that wait now, in steps. Absent if the store of the queue does
   * it, with its other batches. Rejects with `DeliveryUnderWay` if a delivery takes longer than `waitMs`.
   */
  eraseItems?(erasing: ItemErasing): AsyncGenerator<undefined, void, undefined>;
  /** Removes what the files of the queue still have of cut items, in steps. Rejects with `disk_full` while the disk lacks the room for it. */
  sweepErased?(): AsyncGenerator<undefined, void, undefined>;
};

/** A worker delivers a batch with items to erase, and the erasure has to wait for the end of the delivery. */
export class DeliveryUnderWay extends Error {
  override readonly name = 'DeliveryUnderWay';
}

/** The items to erase from the batches of a project. */
export type ItemErasing = {
  readonly projectId: string;
  /** Milliseconds since the epoch: batches that were received later stay. */
  readonly until: number;
  /** The most milliseconds of a wait for the end of one delivery. */
  readonly waitMs: number;
  /** The batch without its erased items; undefined if it has none of them. */
  rest(batch: SealedBatch): Promise<SealedBatch | undefined>;
};

export type QueueEntry = {
  /** Grows by append order. */
  readonly seq: number;
  readonly batch: SealedBatch;
  /** Failed deliveries so far. */
  readonly attempts: number;
};

export type DeadLetterReason = {
  readonly code: string;
  readonly message: string;
  /** Undelivered items, if the entry's other items were delivered; default: all items of the entry. */
  readonly items?: number;
};

/** The only reasons for which the queue drops an accepted entry. */
export type DropReason = 'project_deleted' | 'retention' | 'erasure';

export type QueueDrop = {
  readonly branch: string;
  readonly items: number;
  readonly reason: DropReason;
  /** Whether the entry was a dead letter. */
  readonly wasDead: boolean;
};

export type DeadLetter = {
  readonly id: number;
  readonly branch: string;
  readonly batchId: string;
  readonly projectId: string;
  readonly items: number;
  readonly bytes: number;
  readonly reason: DeadLetterReason;
  /** Milliseconds since the epoch. */
  readonly failedAt: number;
};

export type DeadLetterFilter = {
  readonly branch?: string;
  /** Default: 100. */
  readonly limit?: number;
  /** Only ids greater than this. */
  readonly after?: number;
};

/** The numbers that every queue keeps. */
export type QueueSummary = {
  readonly branches: readonly BranchSummary[];
  readonly deadLetters: number;
  /** Items in dead letters, over all branches. */
  readonly deadLetterItems: number;
};

/** The numbers of a durable queue. */
export type QueueStats = Omit<QueueSummary, 'branches'> & {
  readonly branches: readonly BranchStats[];
  /** Bytes of bodies that wait in any branch. */
  readonly bytes: number;
  readonly maxBytes: number;
  readonly quarantined: number;
};

type BranchSummary = {
  readonly branch: string;
  /** Waiting or leased. */
  readonly entries: number;
  readonly leased: number;
  /** Milliseconds since the epoch of the oldest entry's receipt; undefined if the branch is empty. */
  readonly oldestAt: number | undefined;
};

type BranchStats = BranchSummary & {
  /** Waiting or leased. */
  readonly items: number;
};

export type QueueOptions = {
  /** Distinguishes queues in one store or directory; the component's id. */
  readonly name: string;
  readonly branches: readonly string[];
  readonly maxBytes: number;
  /** Bytes of the newest bodies to keep in memory as well, for a consumer that keeps pace. */
  readonly cacheBytes?: number;
};

/** The earliest of times that may be unknown. */
export function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** A place that keeps queues: a store or a directory (`file_storage`). */
export type QueueStorage = {
  openQueue(options: QueueOptions): Promise<DurableQueue>;
};

/** Offered by extensions that can keep queues. */
export const QUEUE_STORAGE = capability<QueueStorage>('queue_storage');
