import type { Query } from '../query/query.ts';
import type { QueueAdmin } from '../queue/queue.ts';
import type { ChangedBy } from '../tenancy/contract.ts';
import type { ErasureBlocks } from './erasing/blocks.ts';

/** `counted` is the end of a dry run. */
export const ERASURE_STATES = ['running', 'counted', 'done', 'failed'] as const;
export type ErasureState = (typeof ERASURE_STATES)[number];

/** The removal of the traces that a query finds, with every byte of their events. */
export type Erasure = {
  readonly id: string;
  readonly projectId: string;
  /** Once the erasure is done, hashes take the place of the values. */
  readonly query: string;
  readonly state: ErasureState;
  readonly isDryRun: boolean;
  /** Milliseconds since the epoch; null without a block. */
  readonly blockUntil: number | null;
  /** The count of a dry run, or of the traces that were removed so far. */
  readonly traces: number;
  readonly observations: number;
  /** Bytes of events as they were sent, without compression. */
  readonly bytes: number;
  readonly requestedBy: string;
  /** Milliseconds since the epoch. */
  readonly requestedAt: number;
  readonly finishedAt: number | null;
  /** Why the erasure failed, or why a running one waits. */
  readonly failure: string | null;
  readonly receipt: ErasureReceipt | null;
};

/** The proof that an erasure was carried out. It names values by their hashes only. */
export type ErasureReceipt = {
  readonly traces: number;
  readonly observations: number;
  readonly bytes: number;
  /** SHA-256 in hex of the sorted SHA-256 hashes in hex of the trace ids, one a line. */
  readonly idsHash: string;
  /** Stored batches that are damaged, so that their items are unknown. */
  readonly unreadableBatches: number;
  /** Milliseconds since the epoch, of the last scan, which found nothing. */
  readonly verifiedAt: number;
  /** Where a copy may still be. */
  readonly copies: readonly string[];
};

export type ErasureRequest = {
  readonly query: Query;
  readonly isDryRun: boolean;
  /** Milliseconds since the epoch: until then the trace ids and users that the query names are not stored again. */
  readonly blockUntil?: number;
};

export type ErasureStore = {
  /** Values that are not stored again; `BLOCKED` is the counted reason. */
  readonly blocks: Pick<ErasureBlocks, 'areSome' | 'apply'>;
  /** Erasures also cover these queues. Those of the store itself are covered in any case. */
  useQueues(queues: () => Iterable<QueueAdmin>): void;
  /** Resolves when the request is durable. The work goes on in the background, also after a restart. */
  request(projectId: string, request: ErasureRequest, by: ChangedBy): Promise<Erasure>;
  get(projectId: string, id: string): Promise<Erasure | undefined>;
  /** Newest first. Rejects with `StoreError('invalid_cursor')`. */
  list(
    projectId: string,
    page: { readonly limit: number; readonly cursor?: string },
  ): Promise<{ readonly items: readonly Erasure[]; readonly nextCursor: string | null }>;
};
