import type { SealedBatch } from '../model/batch.ts';
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
  const batches = new Map<number, SealedBatch>();
  let bytes = 0;
  return {
    put(seq, appended) {
      const batch = cached(appended);
      const size = sizeOf(batch);
      // Evicts nothing: the oldest batches are leased next.
      if (bytes + size > maxBytes) return;
      bytes += size;
      holdIndex(batch);
      batches.set(seq, batch);
    },
    get: (seq) => batches.get(seq),
    delete(seq) {
      const batch = batches.get(seq);
      if (batch === undefined) return;
      bytes -= sizeOf(batch);
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
