import { LruCache } from '../component/lru.ts';
import type { SealedBatch } from '../model/batch.ts';
import { indexBytes } from '../model/formats.ts';

/**
 * The batches that recent reads cut items out of: neighbouring traces share batches, and a client reads a trace again. A small
 * batch is kept inflated, with its index. Of a large one, which a thread works on, only the facts are kept here; the thread has a
 * cache of its own.
 */
export type BatchCache = LruCache<string, CachedBatch>;

export type CachedBatch = {
  /** The batch without its stored body. A small one has an index (`knownIndexOf`). */
  readonly batch: SealedBatch;
  /** The stamp of the stored body; the batch is used only while the store has the same one. */
  readonly stamp: string;
};

/** About the memory of a batch without its bytes. */
const FACTS_BYTES = 1024;

export function createBatchCache(maxBytes: number): BatchCache {
  return new LruCache({ maxEntries: Infinity, maxWeight: maxBytes, weightOf });
}

function weightOf({ batch }: CachedBatch): number {
  return FACTS_BYTES + (batch.positions?.length ?? 0) * 8 + indexBytes(batch);
}
