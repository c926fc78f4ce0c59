import { rawEventId } from '../model/batch.ts';
import { placeInBody, requestIndexOf } from '../model/formats.ts';
import { observationJson } from '../store/observation-json.ts';
import type { EventRef } from '../store/store.ts';
import { answerJson } from './answer.ts';
import type { PayloadReader } from './payloads.ts';
import { one } from './query.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';

/** An observation with its payloads, and the ids of the events that it is made of. */
export const SHOW_OBSERVATION: StoredRequest = {
  path: '/observations/:id',
  parameters: ['trace_id'],
  work: showObservation,
};

async function showObservation(reading: StoreReading): Promise<void> {
  const { exchange, query, tenant, store, read } = reading;
  const id = exchange.params.id ?? '';
  const traceId = one(query, 'trace_id');
  const stored = await read.turn(() => store.traces.getObservation(tenant.projectId, id, traceId));
  if (stored === undefined) throw unknown('observation');
  const payloads = await reading.payloads({ kind: 'trace', id: stored.traceId });
  const [texts, ids] = await read.turn(async () => {
    await payloads.prepare(stored.events);
    return [await payloads.read(stored), await rawEventIds(payloads, stored.events)];
  });
  const text = observationJson(stored, texts);
  answerJson(exchange, read, `${text.slice(0, -1)},"raw_event_ids":${JSON.stringify(ids)}}`);
}

/** The ids of events in the order of their arrival, without those that have expired or were erased. */
async function rawEventIds(
  payloads: PayloadReader,
  events: readonly EventRef[],
): Promise<string[]> {
  const ids: string[] = [];
  // The ids of batches begin with their time.
  const inOrder = [...events].sort((a, b) =>
    a.batchId === b.batchId ? a.position - b.position : a.batchId < b.batchId ? -1 : 1,
  );
  for (const { batchId, position } of inOrder) {
    const batch = await payloads.batch(batchId);
    const place = batch && placeInBody(batch.facts, position);
    if (batch !== undefined && place !== undefined) {
      ids.push(rawEventId(batchId, requestIndexOf(batch.facts, place)));
    }
  }
  return ids;
}
