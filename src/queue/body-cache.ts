import type { SealedBatch } from '../model/batch.ts';
import { isFreed } from '../model/batch.ts';
import { holdIndex, knownIndexOf, SMALL_BODY_BYTES } from '../model/formats.ts';

/**
 * The newest appended batches with their scans, so that a consumer that keeps pace reads nothing back from disk.
 * The cache is bounded by bytes; a batch that does not fit is read from disk when it is leased.
 */
export type BodyCache = {
  put(seq: number, batch: SealedBatch): void;
  get(seq: number): SealedBatch | undefined;
  delete(seq: number): void;
};

export function bodyCache(maxBytes: number): BodyCache {
  /** Each with the bytes that count for it, because a reader may make an index later. */
  const batches = new Map<number, { readonly batch: SealedBatch; readonly size: number }>();
  let bytes = 0;
  return {
    put(seq, appended) {
      const batch = cached(appended);
      const size = sizeOf(batch);
      // Evicts nothing: the oldest batches are leased next.
      if (bytes + size > maxBytes) return;
      bytes += size;
      holdIndex(batch);
      batches.set(seq, { batch, size });
    },
    get(seq) {
      const batch = batches.get(seq)?.batch;
      return batch === undefined || isFreed(batch) ? undefined : batch;
    },
    delete(seq) {
      bytes -= batches.get(seq)?.size ?? 0;
      batches.delete(seq);
    },
  };
}

/** Drops the index of a large batch: the thread that reads the batch builds an index of its own. */
function cached(batch: SealedBatch): SealedBatch {
  if ((knownIndexOf(batch)?.bytes.length ?? 0) <= SMALL_BODY_BYTES) return batch;
  return { ...batch };
}

function sizeOf(batch: SealedBatch): number {
  const inflated = knownIndexOf(batch)?.bytes;
  const shared = inflated === undefined || inflated.buffer === batch.body.buffer;
  return batch.body.byteLength + (shared ? 0 : inflated.byteLength);
}
