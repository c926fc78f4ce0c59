import type { SealedBatch } from '../../src/model/batch.ts';
import { answerRequests, asBuffer } from '../../src/thread/thread.ts';
import { eventsOf } from './event.ts';
import type { EventsRead } from './reader.ts';

/** The thread of reader.ts. */
answerRequests<SealedBatch, EventsRead>((batch) => {
  const { events, unreadable } = eventsOf({ ...batch, body: asBuffer(batch.body) });
  return { reply: { events: events.map(({ batch: _, ...event }) => event), unreadable } };
});
