import { LruCache } from '../../component/lru.ts';
import type { ObservationBatch, SealedBatch } from '../../model/batch.ts';
import { positionOf, requestIndexOf, storedPositionsOf } from '../../model/formats.ts';
import { withoutItems } from './items.ts';

/** The request positions of the items of a batch that its stored copy has cut out, by the gaps of the copy. */
export function cutIndexes(source: SealedBatch, gaps: readonly number[]): number[] {
  const isGap = new Set(gaps);
  return storedPositionsOf(source).flatMap((stored, position) =>
    isGap.has(stored) ? [requestIndexOf(source, position)] : [],
  );
}

/** Batches that are remembered: far more than can be in delivery. */
const MAX_BATCHES = 10_000;

/**
 * Items that were erased from a batch while a delivery of the batch could be under way. A delivery that read the batch before
 * must not store them again. A crash ends all deliveries, so this is in memory only.
 */
export class ErasedInFlight {
  readonly #batches = new LruCache<string, ReadonlySet<number>>({ maxEntries: MAX_BATCHES });
  #isUsed = false;

  /** `indexes` are the positions of the items in the request. */
  add(batchId: string, indexes: readonly number[]): void {
    this.#isUsed = true;
    this.#batches.set(batchId, new Set([...(this.#batches.get(batchId) ?? []), ...indexes]));
  }

  /** Whether the batch has erased items. */
  isCut(source: ObservationBatch['source']): boolean {
    for (const index of this.#batches.get(source.id) ?? []) {
      if (positionOf(source, index) !== undefined) return true;
    }
    return false;
  }

  /** The batch without erased items. */
  left(batch: ObservationBatch): ObservationBatch {
    if (!this.#isUsed) return batch;
    const { source, observations } = batch;
    const erased = this.#batches.get(source.id);
    if (erased === undefined) return batch;
    const positions = new Set<number>();
    for (const index of erased) {
      const position = positionOf(source, index);
      if (position !== undefined) positions.add(position);
    }
    if (positions.size === 0) return batch;
    return {
      ...batch,
      source: withoutItems(source, positions),
      observations: observations.filter(({ index }) => !erased.has(index)),
    };
  }
}
