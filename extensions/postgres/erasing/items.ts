import type { SealedBatch } from '../../../src/model/batch.ts';
import { SMALL_BODY_BYTES, smallIndexOf } from '../../../src/model/formats.ts';
import type { BatchItem } from '../../../src/store/erasing/items.ts';
import { tracedItems, withoutItems } from '../../../src/store/erasing/items.ts';
import { asBuffer, createThread, threadFile } from '../../../src/thread/thread.ts';

/** `erased`: the positions of the items to cut out; null asks for the items. */
export type ItemRequest = {
  readonly batch: SealedBatch;
  readonly erased: readonly number[] | null;
};
export type ItemReply = { readonly items: readonly BatchItem[] } | { readonly batch: SealedBatch };

/** Reads and cuts batches; large ones in a thread. */
export type ItemCutter = {
  items(batch: SealedBatch): Promise<readonly BatchItem[]>;
  without(batch: SealedBatch, erased: ReadonlySet<number>): Promise<SealedBatch>;
  close(): Promise<void>;
};

export function itemCutter(): ItemCutter {
  const thread = createThread<ItemRequest, ItemReply>(threadFile(import.meta.url, 'item-thread'));
  const isSmall = (batch: SealedBatch): boolean =>
    smallIndexOf(batch, SMALL_BODY_BYTES) !== undefined;
  return {
    async items(batch) {
      if (isSmall(batch)) return tracedItems(batch);
      const reply = await thread.ask({ batch, erased: null });
      return 'items' in reply ? reply.items : [];
    },
    async without(batch, erased) {
      if (isSmall(batch)) return withoutItems(batch, erased);
      const reply = await thread.ask({ batch, erased: [...erased] });
      if (!('batch' in reply)) throw new Error('the thread answered another request');
      return { ...reply.batch, body: asBuffer(reply.batch.body) };
    },
    close: () => thread.close(),
  };
}
