import type { SealedBatch } from '../../model/batch.ts';
import type { ItemErasing, QueueAdmin } from '../../queue/queue.ts';
import type { BatchItem } from './items.ts';
import { contentsOfErased } from './items.ts';
import type {
  CleanedBatches,
  ErasedPart,
  ErasingTables,
  ErasureScope,
  Stepping,
} from './tables.ts';

/** The queues outside of the store's tables; the service sets them. */
export type OtherQueues = { all: () => Iterable<QueueAdmin> };

/** Cuts the items of listed traces out of the other queues. Rejects with `DeliveryUnderWay`. */
export async function* cleanQueues(
  tables: ErasingTables,
  { all }: OtherQueues,
  scope: ErasureScope,
  waitMs: number,
): Stepping<CleanedBatches> {
  const sum = { items: 0, bytes: 0, unreadable: 0 };
  const erasing: ItemErasing = {
    projectId: scope.project,
    until: scope.until,
    waitMs,
    async rest(batch) {
      const erased = await erasedItems(tables, scope, batch);
      if (erased === undefined) sum.unreadable++;
      if (erased === undefined || erased.items.length === 0) return undefined;
      const { items } = erased;
      sum.items += items.length;
      sum.bytes += items.reduce((bytes, item) => bytes + item.bytes, 0);
      if (scope.isDryRun) return undefined;
      await tables.noteErased(scope, batch, erased);
      return tables.without(batch, new Set(items.map(({ position }) => position)));
    },
  };
  for (const queue of all()) {
    if (queue.eraseItems !== undefined) yield* queue.eraseItems(erasing);
  }
  return sum;
}

/** Removes what the files of the queues still have of cut items. */
export async function* sweepQueues({ all }: OtherQueues): Stepping<void> {
  for (const queue of all()) {
    if (queue.sweepErased !== undefined) yield* queue.sweepErased();
  }
}

/** Undefined if the batch cannot be read. */
async function erasedItems(
  tables: ErasingTables,
  scope: ErasureScope,
  batch: SealedBatch,
): Promise<ErasedPart | undefined> {
  let items: readonly BatchItem[];
  try {
    items = await tables.itemsOf(batch);
  } catch {
    return undefined;
  }
  const erased = await tables.belonging(scope, items);
  return { items: erased, contents: contentsOfErased(items, erased) };
}
