import type { SealedBatch } from '../../src/model/batch.ts';
import { answerRequests, asBuffer, type Reply } from '../../src/thread/thread.ts';
import { type BodyResult, type BodyTask, cutBody, encodeSpans } from './body-worker.ts';
import { eventsOf } from './observation-event.ts';

/** The thread of body-worker.ts. */
answerRequests<BodyTask, BodyResult>(async (task) => {
  switch (task.kind) {
    case 'read': {
      const { events, unreadable } = eventsOf(arrived(task.batch));
      const crossing = events.map(({ batch: _, ...event }) => event);
      return { reply: { kind: 'events', events: crossing, unreadable } };
    }
    case 'cut':
      return bytesReply(cutBody({ ...task.cut, batch: arrived(task.cut.batch) }));
    case 'encode':
      return bytesReply(await encodeSpans(task.encoding));
  }
});

function arrived(batch: SealedBatch): SealedBatch {
  return { ...batch, body: asBuffer(batch.body) };
}

/** Copies the result, because it may be a view of a larger buffer, which would be transferred with it. */
function bytesReply(result: Buffer): Reply<BodyResult> {
  const bytes = new Uint8Array(result);
  return { reply: { kind: 'bytes', bytes }, transfer: [bytes.buffer] };
}
