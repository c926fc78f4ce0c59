import type { Scanner } from '../http/scan-pool.ts';
import type { SealedBatch } from '../model/batch.ts';
import {
  keepIndex,
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
import type { BatchCache, CachedBatch } from './batch-cache.ts';
import type { ReadReservation } from './budget.ts';

/** Cuts payload fields out of raw batches, for one request. */
export type PayloadReader = {
  /** Looks up the batches of several observations in one call to the store. */
  prepare(observations: readonly StoredObservation[]): Promise<void>;
  /** Fields of an expired batch are absent. Rejects with a `Refusal` if memory is short. */
  read(observation: StoredObservation): Promise<PayloadTexts>;
  /** Undefined if the batch has expired. Rejects with a `Refusal` if memory is short. */
  batch(id: string): Promise<OpenBatch | undefined>;
};

/** A batch that items are cut out of. */
type OpenBatch = {
  /** Without its body. */
  readonly facts: SealedBatch;
  /** Undefined if the batch has expired since it was opened. */
  payload(position: number, fields: readonly PayloadField[]): Promise<Payload | undefined>;
  /** One item as it was accepted. Undefined if the batch has expired since it was opened. */
  source(position: number): Promise<string | undefined>;
};

export type PayloadParts = {
  readonly traces: Pick<TraceStore, 'getBatches' | 'batchStamps'>;
  readonly projectId: string;
  readonly scanner: Scanner;
  readonly reservation: ReadReservation;
  readonly cache: BatchCache;
};

const NO_BYTES = Buffer.alloc(0);

/**
 * The store is asked for a body only if nothing has it:
 *
 *   stamp of the stored body ─▶ cache of small batches ─▶ cut here
 *                            ─▶ cache of the thread ─▶ cut there
 *                            ─▶ body from the store ─▶ inflate, scan ─▶ cache
 */
export function readPayloads(parts: PayloadParts): PayloadReader {
  const { traces, projectId, scanner, reservation, cache } = parts;
  /** The stamps that this request has looked up. */
  const stamps = new Map<string, string>();
  let reserved = 0;

  async function stampOf(id: string): Promise<string | undefined> {
    if (!stamps.has(id)) await lookUp([id]);
    return stamps.get(id);
  }

  async function lookUp(ids: readonly string[]): Promise<void> {
    for (const [id, stamp] of await traces.batchStamps(projectId, ids)) stamps.set(id, stamp);
  }

  async function load(id: string): Promise<SealedBatch | undefined> {
    const [loaded] = await traces.getBatches(projectId, [id]);
    if (loaded === undefined) return undefined;
    const size = loaded.body.length + inflatedSizeHint(loaded.body, loaded.encoding);
    if (size > reserved) {
      reservation.grow(size - reserved);
      // The next batch uses the same reservation: bodies are worked on one after another.
      reserved = size;
    }
    return loaded;
  }

  async function open(id: string): Promise<OpenBatch | undefined> {
    const stamp = await stampOf(id);
    const key = `${projectId} ${id}`;
    if (stamp === undefined) {
      cache.delete(key);
      return undefined;
    }
    const kept = cache.get(key);
    if (kept?.stamp === stamp) return opened(kept, undefined);
    const loaded = await load(id);
    if (loaded === undefined) return undefined;
    const made = { batch: withoutBody(loaded), stamp };
    cache.set(key, made);
    return opened(made, loaded);
  }

  /** Large batches are inflated, scanned and cut in a thread. */
  function opened({ batch, stamp }: CachedBatch, loaded: SealedBatch | undefined): OpenBatch {
    if (knownIndexOf(batch) !== undefined) {
      return {
        facts: batch,
        payload: async (position, fields) => payload(batch, position, fields),
        source: async (position) => sourceEvent(batch, position),
      };
    }
    const stored = {
      key: `${batch.id} ${stamp}`,
      load: async () => loaded ?? (await load(batch.id)),
    };
    return {
      facts: batch,
      payload: (position, fields) => scanner.payload(stored, position, fields),
      source: (position) => scanner.source(stored, position),
    };
  }

  return {
    async prepare(observations) {
      const ids = new Set<string>();
      for (const { payload } of observations) {
        for (const field of PAYLOAD_FIELDS) {
          const id = payload[field]?.batchId;
          if (id !== undefined && !stamps.has(id)) ids.add(id);
        }
      }
      if (ids.size > 1) await lookUp([...ids]);
    },
    batch: open,
    async read(observation) {
      const texts: PayloadTexts = {};
      for (const [batchId, wanted] of byBatch(observation)) {
        const source = await open(batchId);
        if (source === undefined) continue;
        for (const [position, fields] of wanted) {
          const place = placeInBody(source.facts, position);
          if (place !== undefined) Object.assign(texts, await source.payload(place, fields));
        }
      }
      return texts;
    },
  };
}

/** The facts of a batch; those of a small one with an index. */
function withoutBody(loaded: SealedBatch): SealedBatch {
  const index = smallIndexOf(loaded, SMALL_BODY_BYTES);
  const facts = { ...loaded, body: NO_BYTES };
  if (index !== undefined) keepIndex(facts, index);
  return facts;
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
