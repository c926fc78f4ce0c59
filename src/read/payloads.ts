import type { Reservation } from '../http/admission.ts';
import type { Scanner } from '../http/scan-pool.ts';
import type { RawBatch } from '../model/batch.ts';
import { indexOf, payload, STORED_LIMITS } from '../model/formats.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import type { PayloadField } from '../model/observation.ts';
import { PAYLOAD_FIELDS } from '../model/observation.ts';
import type { StoredObservation, TraceStore } from '../store/store.ts';
import type { PayloadTexts } from './observation-json.ts';

/** Inflated bytes of batches that one reading request keeps at hand. */
const KEPT_BYTES = 16 * 1_048_576;

/** Cuts payload fields out of the raw batches that hold them, for one request. */
export type PayloadReader = {
  /** Fields whose batch is gone read as absent. Rejects with a `Refusal` where there is no room in memory. */
  read(observation: StoredObservation): Promise<PayloadTexts>;
  /** Rejects with a `Refusal` where there is no room in memory; undefined where it is gone. */
  batch(id: string): Promise<RawBatch | undefined>;
};

export function readPayloads(
  traces: TraceStore,
  projectId: string,
  scanner: Scanner,
  reservation: Reservation,
): PayloadReader {
  /** In order of last use. Every batch in it is indexed. */
  const kept = new Map<string, RawBatch>();
  let keptBytes = 0;

  async function batch(id: string): Promise<RawBatch | undefined> {
    const found = kept.get(id);
    if (found !== undefined) {
      kept.delete(id);
      kept.set(id, found);
      return found;
    }
    const [loaded] = await traces.getBatches(projectId, [id]);
    if (loaded === undefined) return undefined;
    await makeRoom(loaded);
    await index(loaded, scanner);
    kept.set(id, loaded);
    keptBytes += sizeOf(loaded);
    return loaded;
  }

  /** What is let go stays reserved: the next batch takes its place. */
  async function makeRoom(loaded: RawBatch): Promise<void> {
    const size = loaded.body.length + inflatedSizeHint(loaded.body, loaded.encoding);
    for (const [id, oldest] of kept) {
      if (keptBytes + size <= KEPT_BYTES) break;
      kept.delete(id);
      keptBytes -= sizeOf(oldest);
    }
    const missing = keptBytes + size - reservation.held;
    if (missing > 0) reservation.grow(missing);
  }

  return {
    batch,
    async read(observation) {
      const texts: PayloadTexts = {};
      for (const [batchId, wanted] of byBatch(observation)) {
        const source = await batch(batchId);
        if (source === undefined) continue;
        for (const [position, fields] of wanted) {
          Object.assign(texts, payload(source, position, fields));
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

/** A large batch is inflated and scanned in the worker, as it was when it came in. */
async function index(batch: RawBatch, scanner: Scanner): Promise<void> {
  if (batch.index !== undefined) return;
  if (inflatedSizeHint(batch.body, batch.encoding) <= 1_048_576) {
    indexOf(batch);
    return;
  }
  const { format, encoding } = batch;
  const wanted = { format, encoding, ...STORED_LIMITS };
  // The scanner takes over what it is given, and the store may still hold this body.
  const copy = Buffer.allocUnsafeSlow(batch.body.length);
  batch.body.copy(copy);
  const prepared = await scanner.prepare(copy, wanted);
  batch.index = prepared.index;
}

function sizeOf(batch: RawBatch): number {
  return batch.body.length + (batch.index?.bytes.length ?? 0);
}
