import type { Scanner } from '../http/scan-pool.ts';
import type { SealedBatch } from '../model/batch.ts';
import {
  keepIndex,
  knownIndexOf,
  payload,
  placeInBody,
  requestSpans,
  SMALL_BODY_BYTES,
  smallIndexOf,
  sourceEvent,
} from '../model/formats.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import type { Payload, PayloadField } from '../model/observation.ts';
import { PAYLOAD_FIELDS } from '../model/observation.ts';
import type { OtlpEncoding } from '../model/otlp/request-part.ts';
import type { PayloadTexts } from '../store/observation-json.ts';
import type { EventRef, StoredObservation, TraceStore } from '../store/store.ts';
import type { BatchCache, CachedBatch } from './batch-cache.ts';
import type { ReadReservation } from './budget.ts';

/** Cuts payload fields out of raw batches, for one request. */
export type PayloadReader = {
  /** Looks up the batches of several events in one call to the store. */
  prepare(events: readonly EventRef[]): Promise<void>;
  /** Whether the batches of events that `prepare` looked up are there. */
  has(events: readonly EventRef[]): boolean;
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
  /** Spans as a part of a request. Undefined if the batch has no spans, or has expired since it was opened. */
  spans(positions: readonly number[], encoding: OtlpEncoding): Promise<Buffer | undefined>;
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
  const stamps = new Stamps(traces, projectId);
  let reserved = 0;

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
    const stamp = await stamps.of(id);
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
        spans: async (positions, encoding) => requestSpans(batch, positions, encoding),
        source: async (position) => sourceEvent(batch, position),
      };
    }
    const stored = {
      key: `${batch.id} ${stamp}`,
      async load() {
        const again = loaded ?? (await load(batch.id));
        // An erasure has cut items out: the positions are those of another body.
        return again?.items === batch.items ? again : undefined;
      },
    };
    return {
      facts: batch,
      payload: (position, fields) => scanner.payload(stored, position, fields),
      spans: (positions, encoding) => scanner.spans(stored, positions, encoding),
      source: (position) => scanner.source(stored, position),
    };
  }

  return {
    prepare: (events) => stamps.lookUp(events.map(({ batchId }) => batchId)),
    has: (events) => events.every(({ batchId }) => stamps.has(batchId)),
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

/** The stamps that a request has looked up. */
class Stamps {
  readonly #known = new Map<string, string>();
  readonly #traces: PayloadParts['traces'];
  readonly #projectId: string;

  constructor(traces: PayloadParts['traces'], projectId: string) {
    this.#traces = traces;
    this.#projectId = projectId;
  }

  async of(id: string): Promise<string | undefined> {
    await this.lookUp([id]);
    return this.#known.get(id);
  }

  /** Asks for those that are not known, all at once. */
  async lookUp(ids: readonly string[]): Promise<void> {
    const unknown = new Set(ids.filter((id) => !this.#known.has(id)));
    if (unknown.size === 0) return;
    for (const [id, stamp] of await this.#traces.batchStamps(this.#projectId, [...unknown])) {
      this.#known.set(id, stamp);
    }
  }

  has(id: string): boolean {
    return this.#known.has(id);
  }
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
