import { capability } from '../component/capability.ts';
import type { IdempotencyLedger } from '../component/component.ts';
import type { RawBatch } from '../model/batch.ts';

/**
 * The durable queue. An appended batch waits once per branch (one branch per exporter behind the queue),
 * so that a slow exporter neither stalls nor repeats the others; it is gone when every branch has
 * acknowledged or dead-lettered it.
 *
 *   append ──fsync──▶ waiting ──lease──▶ leased ──ack──▶ gone
 *                        ▲                 │ ├──nack(delay)──▶ waiting, due later
 *                        └──── crash ──────┘ └──deadLetter──▶ dead letter ──replay──▶ waiting
 */
export type DurableQueue = {
  /**
   * Makes the batch durable: bytes, usage entry and idempotency record in one transaction, synced to
   * disk before it resolves. Appends of one event-loop turn share a transaction. A batch without accepted
   * items keeps its idempotency record alone.
   * Rejects with `RetryableError`: `queue_full` (over `maxBytes`), `disk_full`, `storage_failed`.
   */
  append(batch: RawBatch): Promise<void>;
  /**
   * Takes up to `max` due entries of a branch, oldest first, and no more than about `maxBytes` of bodies
   * (at least one entry if any is due). Leases belong to this process: they end with ack, nack,
   * deadLetter or its death. Resolves with an empty list when nothing is due.
   */
  lease(branch: string, max: number, maxBytes: number): Promise<QueueEntry[]>;
  /** Told when `lease` may find something: after an append, a due retry, a replay. */
  onAvailable(branch: string, listener: () => void): () => void;
  ack(branch: string, entries: readonly QueueEntry[]): Promise<void>;
  /** Gives an entry back, due again after `delayMs`. Attempts are counted, never limited, here. */
  nack(branch: string, entry: QueueEntry, delayMs: number, reason: string): Promise<void>;
  /** Sets an entry aside with its reason. */
  deadLetter(branch: string, entry: QueueEntry, reason: DeadLetterReason): Promise<void>;
  /** Ends an entry that nobody wants any more, e.g. because its project was deleted. */
  discard(branch: string, entry: QueueEntry, reason: DropReason): Promise<void>;
  /** Told of every entry that left a branch, or its dead letter, without being delivered. */
  onDrop(listener: (drop: QueueDrop) => void): () => void;
  deadLetters(filter?: { branch?: string; limit?: number; after?: number }): Promise<DeadLetter[]>;
  /** Puts dead letters back into their branches; resolves with how many. */
  replay(ids: readonly number[] | 'all'): Promise<number>;
  drop(ids: readonly number[] | 'all'): Promise<number>;
  /**
   * Takes out everything of a deleted project, waiting or dead, and takes nothing of it again. Resolved:
   * nothing more is accepted or replayed of it; the bytes leave the file in steps after that.
   */
  removeProject(projectId: string): Promise<void>;
  stats(): QueueStats;
  /** Reads everything and checks it; damaged entries are quarantined and reported. */
  verify(): Promise<{ entries: number; quarantined: number }>;
  readonly idempotency: IdempotencyLedger;
};

export type QueueEntry = {
  /** Grows by append order. */
  readonly seq: number;
  readonly batch: RawBatch;
  /** Failed deliveries so far. */
  readonly attempts: number;
};

export type DeadLetterReason = {
  readonly code: string;
  readonly message: string;
  /** Items it stands for, where the others of the entry were delivered; else all of them. */
  readonly items?: number;
};

/** All reasons for which what was accepted may go (design §2.9), beside what the configuration asks for. */
export type DropReason = 'project_deleted' | 'retention';

export type QueueDrop = {
  readonly branch: string;
  readonly items: number;
  readonly reason: DropReason;
  /** It stood in the dead letter. */
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

export type QueueStats = {
  /** Entries and items waiting or leased, per branch. */
  readonly branches: readonly {
    readonly branch: string;
    readonly entries: number;
    readonly items: number;
    readonly leased: number;
    /** Milliseconds since the epoch of the oldest entry's receipt; undefined when empty. */
    readonly oldestAt: number | undefined;
  }[];
  /** Bytes of bodies that wait in any branch. */
  readonly bytes: number;
  readonly maxBytes: number;
  readonly deadLetters: number;
  /** Items in the dead letter, over all branches. */
  readonly deadLetterItems: number;
  readonly quarantined: number;
};

export type QueueOptions = {
  /** Distinguishes queues in one store or directory; the component's id. */
  readonly name: string;
  readonly branches: readonly string[];
  readonly maxBytes: number;
  /** Bodies to keep in memory too, for a consumer that comes soon. Default: what suits one that needs them read. */
  readonly cacheBytes?: number;
};

/** A place that keeps queues: a store, or a directory (`file_storage`). */
export type QueueStorage = {
  openQueue(options: QueueOptions): Promise<DurableQueue>;
};

/** Offered by extensions that can keep queues. */
export const QUEUE_STORAGE = capability<QueueStorage>('queue_storage');
