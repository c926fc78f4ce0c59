import { LruCache } from '../component/lru.ts';
import type { Scanner } from '../http/scan-pool.ts';
import type { SealedBatch } from '../model/batch.ts';
import {
  knownIndexOf,
  payload,
  placeInBody,
  SMALL_BODY_BYTES,
  smallIndexOf,
  sourceEvent,
} from '../model/formats.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import type { Payload, PayloadField } from '../model/observation.ts';
import { PAYLOAD_FIELDS } from '../model/observation.ts';
import type { PayloadTexts } from '../store/observation-json.ts';
import type { StoredObservation, TraceStore } from '../store/store.ts';
import type { ReadReservation } from './budget.ts';

/** Inflated bytes of batches that one reading request caches. */
const KEPT_BYTES = 16 * 1_048_576;

/** Cuts payload fields out of raw batches, for one request. */
export type PayloadReader = {
  /** Fields of an expired batch are absent. Rejects with a `Refusal` if memory is short. */
  read(observation: StoredObservation): Promise<PayloadTexts>;
  /** Undefined if the batch has expired. Rejects with a `Refusal` if memory is short. */
  batch(id: string): Promise<SealedBatch | undefined>;
  /** One item of a batch as it was accepted. */
  source(batch: SealedBatch, position: number): Promise<string>;
};

export function readPayloads(
  traces: TraceStore,
  projectId: string,
  scanner: Scanner,
  reservation: ReadReservation,
): PayloadReader {
  /** Small batches in it have an index. */
  const kept = new LruCache<string, SealedBatch>({
    maxEntries: Infinity,
    maxWeight: KEPT_BYTES,
    weightOf: sizeOf,
  });

  let reserved = 0;

  async function batch(id: string): Promise<SealedBatch | undefined> {
    const found = kept.get(id);
    if (found !== undefined) return found;
    const [loaded] = await traces.getBatches(projectId, [id]);
    if (loaded === undefined) return undefined;
    await makeRoom(loaded);
    smallIndexOf(loaded, SMALL_BODY_BYTES);
    kept.set(id, loaded);
    return loaded;
  }

  /** The reservation of an evicted batch remains: the next batch uses it. */
  async function makeRoom(loaded: SealedBatch): Promise<void> {
    const size = loaded.body.length + inflatedSizeHint(loaded.body, loaded.encoding);
    kept.makeRoom(size);
    const missing = kept.weight + size - reserved;
    if (missing <= 0) return;
    reservation.grow(missing);
    reserved += missing;
  }

  /** Large batches are inflated, scanned and cut in a thread. */
  function fieldsOf(
    source: SealedBatch,
    position: number,
    fields: readonly PayloadField[],
  ): Payload | Promise<Payload> {
    if (knownIndexOf(source) === undefined) return scanner.payload(source, position, fields);
    return payload(source, position, fields);
  }

  return {
    batch,
    async source(batch, position) {
      if (knownIndexOf(batch) === undefined) return scanner.source(batch, position);
      return sourceEvent(batch, position);
    },
    async read(observation) {
      const texts: PayloadTexts = {};
      for (const [batchId, wanted] of byBatch(observation)) {
        const source = await batch(batchId);
        if (source === undefined) continue;
        for (const [position, fields] of wanted) {
          const place = placeInBody(source, position);
          if (place !== undefined) Object.assign(texts, await fieldsOf(source, place, fields));
        }
      }
      return texts;
    },
  };
}

/** The fields of an observation, grouped by the batch and then the event that holds them. */
function byBatch(observation: StoredObservation): Map<string, Map<number, PayloadField[]>> {
  const groups = new Map<string, Map<number, PayloadField[]>>();
  for (const field of PAYLOAD_FIELDS) {
    const ref = observation.payload[field];
    if (ref === undefined) continue;
    const events = groups.get(ref.batchId) ?? new Map<number, PayloadField[]>();
    groups.set(ref.batchId, events);
    events.set(ref.position, [...(events.get(ref.position) ?? []), field]);
  }
  return groups;
}

function sizeOf(batch: SealedBatch): number {
  return batch.body.length + (knownIndexOf(batch)?.bytes.length ?? 0);
}
