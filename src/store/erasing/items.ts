import type { SealedBatch } from '../../model/batch.ts';
import type { BatchIndex } from '../../model/batch-index.ts';
import {
  erase,
  headOf,
  indexOf,
  itemRangeOf,
  observeEach,
  positionOf,
  sourceOf,
  storedPositionsOf,
} from '../../model/formats.ts';
import { deflateSync } from '../../model/inflate.ts';
import type { CopyKey } from '../rows/copies.ts';
import { repeatedRun } from '../rows/copies.ts';

/** An item of a batch, and the trace that it belongs to. */
export type BatchItem = {
  /** The position in the body. */
  readonly position: number;
  /** Null for runs that name no trace: they belong to the trace of the run's row. */
  readonly traceId: string | null;
  readonly id: string | null;
  /** The key of the run that the item repeats (src/store/rows/copies.ts): it belongs to the trace of that run too. */
  readonly copy: CopyKey | null;
  readonly userId: string | null;
  /** Bytes of the item as it was sent, without compression. */
  readonly bytes: number;
  /** The hashes of its attachments, in hex. */
  readonly contents: readonly string[];
};

/** The items of a batch. An item that cannot be normalized belongs to the trace that it names, if that is readable. */
export function tracedItems(batch: SealedBatch): BatchItem[] {
  const index = indexOf(batch);
  const { observations, failures } = observeEach(batch);
  const source = sourceOf(batch.format);
  const items: BatchItem[] = observations.map((observation) => {
    const { id, traceId, userId } = observation;
    const copy = repeatedRun(observation, source);
    const position = positionOf(batch, observation.index) ?? 0;
    const contents = (observation.details?.attachments ?? []).map(({ sha256 }) => sha256);
    const bytes = bytesOfItem(index, position);
    return { position, traceId, id, copy, userId, bytes, contents };
  });
  for (const failure of failures) {
    const position = positionOf(batch, failure.index) ?? 0;
    const traceId = namedTrace(index, position);
    const bytes = bytesOfItem(index, position);
    items.push({ position, traceId, id: null, copy: null, userId: null, bytes, contents: [] });
  }
  return items.sort((a, b) => a.position - b.position);
}

/** The hashes of attachments that no other item of the batch has than the erased ones. */
export function contentsOfErased(
  items: readonly BatchItem[],
  erased: readonly BatchItem[],
): readonly string[] {
  const gone = new Set(erased);
  const kept = new Set(items.filter((item) => !gone.has(item)).flatMap(({ contents }) => contents));
  const hashes = new Set(erased.flatMap(({ contents }) => contents));
  return [...hashes].filter((hash) => !kept.has(hash));
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
