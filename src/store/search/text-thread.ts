import type { SealedBatch } from '../../model/batch.ts';
import { answerRequests, asBuffer } from '../../thread/thread.ts';
import type { TextReply, TextRequest } from './text-cutter.ts';
import { fieldTexts } from './texts.ts';

/** The thread of text-cutter.ts. It keeps the last batch with its index: one batch has the events of many observations. */
let last: { readonly key: string; readonly batch: SealedBatch } | undefined;

answerRequests<TextRequest, TextReply>(({ key, batch, wanted, bytes }) => {
  if (batch !== null) last = { key, batch: { ...batch, body: asBuffer(batch.body) } };
  if (last?.key !== key) return { reply: null };
  return { reply: fieldTexts(last.batch, wanted, bytes) };
});
