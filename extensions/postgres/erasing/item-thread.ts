import { tracedItems, withoutItems } from '../../../src/store/erasing/items.ts';
import { answerRequests, asBuffer } from '../../../src/thread/thread.ts';
import type { ItemReply, ItemRequest } from './items.ts';

/** The thread of items.ts. */
answerRequests<ItemRequest, ItemReply>(({ batch, erased }) => {
  const whole = { ...batch, body: asBuffer(batch.body) };
  if (erased === null) return { reply: { items: tracedItems(whole) } };
  return { reply: { batch: withoutItems(whole, new Set(erased)) } };
});
