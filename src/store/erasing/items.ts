import type { SealedBatch } from '../../model/batch.ts';
import type { BatchIndex } from '../../model/batch-index.ts';
import {
  erase,
  headOf,
  indexOf,
  itemRangeOf,
  observeEach,
  positionOf,
  storedPositionsOf,
} from '../../model/formats.ts';
import { deflateSync } from '../../model/inflate.ts';

/** An item of a batch, and the trace that it belongs to. */
export type BatchItem = {
  /** The position in the body. */
  readonly position: number;
  /** Null for runs that name no trace: they belong to the trace of the run's row. */
  readonly traceId: string | null;
  readonly id: string | null;
  readonly userId: string | null;
  /** Bytes of the item as it was sent, without compression. */
  readonly bytes: number;
};

/** The items of a batch. An item that cannot be normalized belongs to the trace that it names, if that is readable. */
export function tracedItems(batch: SealedBatch): BatchItem[] {
  const index = indexOf(batch);
  const { observations, failures } = observeEach(batch);
  const items: BatchItem[] = observations.map((observation) => {
    const { id, traceId, userId } = observation;
    const position = positionOf(batch, observation.index) ?? 0;
    return { position, traceId, id, userId, bytes: bytesOfItem(index, position) };
  });
  for (const failure of failures) {
    const position = positionOf(batch, failure.index) ?? 0;
    const traceId = namedTrace(index, position);
    items.push({ position, traceId, id: null, userId: null, bytes: bytesOfItem(index, position) });
  }
  return items.sort((a, b) => a.position - b.position);
}

function bytesOfItem(index: BatchIndex, position: number): number {
  const { start, end } = itemRangeOf(index, position);
  return end - start;
}

function namedTrace(index: BatchIndex, position: number): string | null {
  try {
    return headOf(index, position).traceId;
  } catch {
    return null;
  }
}

/**
 * The batch without the items at these positions of its body, compressed as before. Usage and answer of the request stay as
 * they are, and rows refer to the other items as before.
 */
export function withoutItems(batch: SealedBatch, erased: ReadonlySet<number>): SealedBatch {
  const index = indexOf(batch);
  const positions = Array.from({ length: batch.items }, (_, position) => position);
  const keep = positions.filter((position) => !erased.has(position));
  const stored = storedPositionsOf(batch);
  const gone = positions.filter((position) => erased.has(position));
  const gaps = [...(batch.gaps ?? []), ...gone.map((position) => stored[position] ?? 0)];
  return {
    ...batch,
    body: deflateSync(erase(index, keep), batch.encoding),
    items: keep.length,
    positions: keep.map((position) => batch.positions?.[position] ?? position),
    gaps: gaps.sort((a, b) => a - b),
  };
}
