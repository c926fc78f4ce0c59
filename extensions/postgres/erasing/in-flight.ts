import type { ObservationBatch } from '../../../src/model/batch.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { positionOf } from '../../../src/model/formats.ts';
import { gapsIn } from '../../../src/queue/record.ts';
import type { AttachmentStore } from '../../../src/store/attachments.ts';
import { contentsLeftOut } from '../../../src/store/attachments.ts';
import type { ErasureBlocks } from '../../../src/store/erasing/blocks.ts';
import { cutIndexes, ErasedInFlight } from '../../../src/store/erasing/in-flight.ts';
import type { Question } from '../connection/statement.ts';
import { question } from '../connection/statement.ts';

/** Request positions of erased items, by batch. */
export type ErasedItems = ReadonlyMap<string, readonly number[]>;

const NONE: ErasedItems = new Map();

/** The items that were erased from batches of a write. The table is empty unless an erasure ran lately. */
export function erasedItemsOf(batchIds: readonly string[]): Question<ErasedItems> {
  return question(
    ['SELECT batch, positions FROM erased_items WHERE batch = ANY ($1)', [batchIds]],
    (found: readonly { batch: string; positions: string }[]) =>
      new Map(found.map(({ batch, positions }) => [batch, JSON.parse(positions) as number[]])),
  );
}

/**
 * The items that the stored batches have lost, by their positions. A copy of a batch that waited elsewhere, such as a dead letter of days
 * ago, may still have them.
 */
export function cutItemsOf(
  sources: readonly ObservationBatch['source'][],
  cut: ReadonlyMap<string, string>,
): ErasedItems {
  if (cut.size === 0) return NONE;
  return new Map(
    sources.map((source) => [source.id, cutIndexes(source, gapsIn(cut.get(source.id) ?? null))]),
  );
}

/** Items of the write were erased after the batch was read. */
class ErasedMeanwhile extends Error {
  override readonly name = 'ErasedMeanwhile';
  readonly items: ErasedItems;

  constructor(items: ErasedItems) {
    super('items of the batch were erased');
    this.items = items;
  }
}

/** Throws `ErasedMeanwhile` if a batch still has an item that was erased. */
export function refuseErased(
  sources: readonly ObservationBatch['source'][],
  erased: ErasedItems,
): void {
  if (erased.size === 0) return;
  const stale = sources.some((source) =>
    erased.get(source.id)?.some((index) => positionOf(source, index) !== undefined),
  );
  if (stale) throw new ErasedMeanwhile(erased);
}

/** Writes batches without the items that were erased while they were on their way, and releases their attachments. */
export function withoutErased(
  write: (batch: ObservationBatch) => Promise<void>,
  blocks: Pick<ErasureBlocks, 'left'>,
  release: AttachmentStore['release'],
): (batch: ObservationBatch) => Promise<void> {
  const inFlight = new ErasedInFlight();
  return async (batch) => {
    for (;;) {
      try {
        const left = inFlight.left(blocks.left(batch));
        if (left.source.items > 0) await write(left);
        if (left === batch) return;
        const contents = contentsLeftOut(batch.observations, left.observations);
        if (contents.length > 0) await release(batch.source.id, contents);
        return;
      } catch (error) {
        const cause = error instanceof RetryableError ? error.cause : error;
        if (!(cause instanceof ErasedMeanwhile)) throw error;
        for (const [batchId, indexes] of cause.items) inFlight.add(batchId, indexes);
      }
    }
  };
}
