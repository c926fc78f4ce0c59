import { LruCache } from '../component/lru.ts';
import { placeInBody, sourceOf } from '../model/formats.ts';
import type { Observation } from '../model/observation.ts';
import { OBSERVATION_ORIGIN, spanOfObservation } from '../model/otlp/encode-observation.ts';
import type { OwnSpan } from '../model/otlp/own-span.ts';
import { encodeOwnSpans } from '../model/otlp/own-span.ts';
import type { OtlpEncoding } from '../model/otlp/request-part.ts';
import { resourceSpansIn } from '../model/otlp/request-part.ts';
import type { PayloadTexts } from '../store/observation-json.ts';
import type { EventRef, StoredObservation, TraceSource } from '../store/store.ts';
import type { PayloadReader } from './payloads.ts';
import type { Read } from './reads.ts';

/** About the memory of an event that is to be cut out of its batch. */
const EVENT_BYTES = 128;
/** A payload is held as text, as an attribute, and as bytes. */
const COPIES = 4;

/** How an observation becomes spans. */
export type SpanForm = {
  /** The events that came as spans: their bytes are cut out of their batches. */
  readonly spans: readonly EventRef[];
  /** Whether a span is made of the merged observation, too: an event of it did not come as a span, or is gone. */
  readonly isMade: boolean;
};

/** Batches whose format is kept. */
const MOST_BATCHES = 1_000;

/** Decides on the form of observations. The batches of their events are those that `prepare` looked up. */
export class SpanForms {
  readonly #read: Read;
  readonly #payloads: PayloadReader;
  /** Whether the items of a batch are spans. */
  readonly #hasSpans = new LruCache<string, boolean>({ maxEntries: MOST_BATCHES });

  constructor(read: Read, payloads: PayloadReader) {
    this.#read = read;
    this.#payloads = payloads;
  }

  /** The merged observation is behind its spans, so that its fields win when both are read again. */
  async of({ observation, events }: TraceSource): Promise<SpanForm> {
    if (events.length === 0 || !this.#payloads.has(events)) return MADE_ONLY;
    if (events.length === 1) {
      return observation.source === 'otlp' ? { spans: events, isMade: false } : MADE_ONLY;
    }
    const spans: EventRef[] = [];
    for (const event of events) if (await this.#isSpan(event)) spans.push(event);
    return { spans, isMade: spans.length < events.length };
  }

  async #isSpan({ batchId }: EventRef): Promise<boolean> {
    const known = this.#hasSpans.get(batchId);
    if (known !== undefined) return known;
    const batch = await this.#read.turn(() => this.#payloads.batch(batchId));
    const hasSpans = batch !== undefined && sourceOf(batch.facts.format) === 'otlp';
    this.#hasSpans.set(batchId, hasSpans);
    return hasSpans;
  }
}

const MADE_ONLY: SpanForm = { spans: [], isMade: true };

/** Events of stored batches, each once, as parts of a request: the bytes of the spans that came. */
export class CutSpans {
  readonly #read: Read;
  readonly #payloads: PayloadReader;
  readonly #encoding: OtlpEncoding;
  readonly #positions = new Map<string, Set<number>>();

  constructor(read: Read, payloads: PayloadReader, encoding: OtlpEncoding) {
    this.#read = read;
    this.#payloads = payloads;
    this.#encoding = encoding;
  }

  add(events: readonly EventRef[]): void {
    for (const { batchId, position } of events) {
      const known = this.#positions.get(batchId);
      if (known === undefined) this.#positions.set(batchId, new Set([position]));
      else known.add(position);
    }
  }

  /** Reserves memory for events that are added and stay until the end of the read. */
  reserve(events: readonly EventRef[]): void {
    this.#read.reservation.grow(events.length * EVENT_BYTES);
  }

  /** A part for each batch, in the order of their arrival: ids begin with the time. */
  async *parts(): AsyncGenerator<Buffer> {
    for (const batchId of [...this.#positions.keys()].sort()) {
      const positions = [...(this.#positions.get(batchId) ?? [])].sort((a, b) => a - b);
      const batch = await this.#read.turn(() => this.#payloads.batch(batchId));
      const places = positions
        .map((position) => batch && placeInBody(batch.facts, position))
        .filter((place) => place !== undefined);
      const part = places.length === 0 ? undefined : await batch?.spans(places, this.#encoding);
      if (part === undefined) continue;
      this.#read.hold(part.length);
      yield part;
    }
  }

  clear(): void {
    this.#positions.clear();
  }
}

/** Spans that are made of observations. */
export class MadeSpans {
  readonly #read: Read;
  readonly #encoding: OtlpEncoding;
  #spans: OwnSpan[] = [];
  #characters = 0;

  constructor(read: Read, encoding: OtlpEncoding) {
    this.#read = read;
    this.#encoding = encoding;
  }

  get count(): number {
    return this.#spans.length;
  }

  /** Of the payloads. */
  get characters(): number {
    return this.#characters;
  }

  add(stored: StoredObservation, texts: PayloadTexts): void {
    const characters = charactersOf(texts);
    this.#read.hold((this.#characters + characters) * COPIES);
    this.#characters += characters;
    this.#spans.push(spanOfObservation(observationOf(stored), texts, stored.createdAt));
  }

  /** A part of a request; undefined without spans. */
  async part(): Promise<Buffer | undefined> {
    if (this.#spans.length === 0) return undefined;
    const request = await encodeOwnSpans(OBSERVATION_ORIGIN, this.#spans, this.#encoding);
    return this.#encoding === 'json' ? resourceSpansIn(request) : request;
  }

  clear(): void {
    this.#spans = [];
    this.#characters = 0;
  }
}

function charactersOf(texts: PayloadTexts): number {
  let characters = 0;
  for (const text of Object.values(texts)) characters += text.length;
  return characters;
}

/** A merged observation as one event. */
function observationOf(stored: StoredObservation): Observation {
  const { projectId: _project, source: _source, payload: _payload, state, ...fields } = stored;
  const { createdAt: _created, updatedAt: _updated, ...observation } = fields;
  const operation = state === 'error' ? 'error' : stored.ended ? 'finish' : 'start';
  return { ...observation, operation, index: 0, payloadMask: 0 };
}
