import type { SealedBatch } from '../model/batch.ts';
import { knownIndexOf, SMALL_BODY_BYTES } from '../model/formats.ts';

/**
 * The newest appended batches as they were appended, scan included, so that a consumer that keeps pace
 * reads nothing back from disk. Bounded by bytes; what does not fit is read from disk when it is leased.
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
      // The oldest are the next to be leased: they stay, and the newcomer waits on disk.
      if (bytes + size > maxBytes) return;
      bytes += size;
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

/** A large batch without its index: it is read in a thread, which makes one of its own. */
function cached(batch: SealedBatch): SealedBatch {
  if ((knownIndexOf(batch)?.bytes.length ?? 0) <= SMALL_BODY_BYTES) return batch;
  return { ...batch };
}

function sizeOf(batch: SealedBatch): number {
  const inflated = knownIndexOf(batch)?.bytes;
  const shared = inflated === undefined || inflated.buffer === batch.body.buffer;
  return batch.body.byteLength + (shared ? 0 : inflated.byteLength);
}
