import { answerRequests, asBuffer } from '../../src/thread/thread.ts';
import { type Cut, cutAtOnce } from './cutter.ts';

/** The thread of cutter.ts. */
answerRequests<Cut, Uint8Array>((cut) => {
  const { batch } = cut;
  // A copy, because what is cut may be a view of something larger, which would go along.
  const reply = new Uint8Array(
    cutAtOnce({ ...cut, batch: { ...batch, body: asBuffer(batch.body) } }),
  );
  return { reply, transfer: [reply.buffer] };
});
