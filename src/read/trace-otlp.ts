import type { Exchange } from '../http/exchange.ts';
import { placeInBody } from '../model/formats.ts';
import type { Observation } from '../model/observation.ts';
import { OBSERVATION_ORIGIN, spanOfObservation } from '../model/otlp/encode-observation.ts';
import type { OwnSpan } from '../model/otlp/own-span.ts';
import { encodeOwnSpans } from '../model/otlp/own-span.ts';
import type { OtlpEncoding } from '../model/otlp/request-part.ts';
import { REQUEST_CLOSE, REQUEST_OPEN, resourceSpansIn } from '../model/otlp/request-part.ts';
import type { PayloadTexts } from '../store/observation-json.ts';
import type { EventRef, StoredObservation, TraceSource } from '../store/store.ts';
import type { BytesAnswer } from './answer.ts';
import { bytesAnswer } from './answer.ts';
import type { PayloadReader } from './payloads.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';

/** Observations of one step. */
const STEP_ROWS = 200;
/** Characters of payloads that are encoded together. */
const ENCODED_CHARACTERS = 262_144;
/** About the memory of an event that is to be cut out of its batch. */
const EVENT_BYTES = 128;
/** A payload is held as text, as an attribute, and as bytes. */
const COPIES = 4;

/**
 * A trace as an ExportTraceServiceRequest. Spans are the bytes that came, with what is unknown here; each event that has a part in
 * an observation is a span of its own. Native events and runs become spans that another tracectl reads as the same observations.
 *
 *   turn: rows of one step ─▶ native events and runs: payloads, encoded ─▶ write
 *                          └▶ spans: by batch ─▶ behind the last step, batch by batch: cut ─▶ write
 */
export const TRACE_OTLP: StoredRequest = {
  path: '/traces/:trace_id/otlp',
  parameters: [],
  work: answerOtlp,
};

async function answerOtlp(reading: StoreReading): Promise<void> {
  const { exchange, tenant, store, read } = reading;
  const traceId = exchange.params.trace_id ?? '';
  const encoding = encodingOf(exchange);
  const trace = await read.turn(() => store.traces.getTrace(tenant.projectId, traceId));
  if (trace === undefined) throw unknown('trace');
  const payloads = await reading.payloads({ kind: 'trace', id: traceId });
  const out = requestAnswer(exchange, reading, encoding);
  const spans = new BatchPositions();
  const made = new MadeSpans(out, reading, encoding);
  for await (const sources of steps(reading, payloads, traceId)) {
    for (const { observation, events } of sources) {
      if (observation.source === 'otlp' && events.length > 0 && payloads.has(events)) {
        read.reservation.grow(events.length * EVENT_BYTES);
        spans.add(events);
      } else {
        const texts = await read.turn(() => payloads.read(observation));
        await made.add(observation, texts);
      }
    }
  }
  await made.flush();
  for (const [batchId, positions] of spans.inOrder()) {
    const batch = await read.turn(() => payloads.batch(batchId));
    const places = positions
      .map((position) => batch && placeInBody(batch.facts, position))
      .filter((place) => place !== undefined);
    const part = places.length === 0 ? undefined : await batch?.spans(places, encoding);
    if (part === undefined) continue;
    read.hold(part.length);
    await out.add(part);
  }
  out.end();
}

/** Protobuf if the client accepts it and does not prefer JSON. */
function encodingOf({ head }: Exchange): OtlpEncoding {
  const accept = String(head.headers.get('accept') ?? '').toLowerCase();
  const [json, proto] = [accept.indexOf('json'), accept.indexOf('protobuf')];
  return proto !== -1 && (json === -1 || proto < json) ? 'proto' : 'json';
}

async function* steps(
  { tenant, store, read }: StoreReading,
  payloads: PayloadReader,
  traceId: string,
): AsyncGenerator<readonly TraceSource[]> {
  let cursor: string | undefined;
  do {
    const from = cursor;
    const page = await read.turn(async () => {
      const page = await store.traces.listSources(tenant.projectId, traceId, {
        limit: STEP_ROWS,
        ...(from === undefined ? {} : { cursor: from }),
      });
      await payloads.prepare(page.items.flatMap(({ events }) => events));
      return page;
    });
    yield page.items;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

type RequestAnswer = { add(part: Buffer): Promise<void>; end(): void };

/** Joins parts of a request. Messages of protobuf follow each other. */
function requestAnswer(
  exchange: Exchange,
  { read }: StoreReading,
  encoding: OtlpEncoding,
): RequestAnswer {
  const type = encoding === 'json' ? 'application/json' : 'application/x-protobuf';
  const out: BytesAnswer = bytesAnswer(exchange, read, type);
  let between = encoding === 'json' ? REQUEST_OPEN : '';
  return {
    async add(part) {
      if (part.length === 0) return;
      await out.add(Buffer.from(between));
      if (encoding === 'json') between = ',';
      await out.add(part);
    },
    end() {
      if (encoding === 'proto') out.end(Buffer.alloc(0));
      else
        out.end(
          Buffer.from(between === REQUEST_OPEN ? REQUEST_OPEN + REQUEST_CLOSE : REQUEST_CLOSE),
        );
    },
  };
}

/** The positions of spans by batch. */
class BatchPositions {
  readonly #positions = new Map<string, Set<number>>();

  add(events: readonly EventRef[]): void {
    for (const { batchId, position } of events) {
      const known = this.#positions.get(batchId);
      if (known === undefined) this.#positions.set(batchId, new Set([position]));
      else known.add(position);
    }
  }

  /** Batches in the order of their arrival: ids begin with the time. */
  inOrder(): [batchId: string, positions: number[]][] {
    const ids = [...this.#positions.keys()].sort();
    return ids.map((id) => [id, [...(this.#positions.get(id) ?? [])].sort((a, b) => a - b)]);
  }
}

/** Spans that are made of observations, and encoded some at a time. */
class MadeSpans {
  readonly #out: RequestAnswer;
  readonly #reading: StoreReading;
  readonly #encoding: OtlpEncoding;
  #spans: OwnSpan[] = [];
  #characters = 0;

  constructor(out: RequestAnswer, reading: StoreReading, encoding: OtlpEncoding) {
    this.#out = out;
    this.#reading = reading;
    this.#encoding = encoding;
  }

  async add(stored: StoredObservation, texts: PayloadTexts): Promise<void> {
    for (const text of Object.values(texts)) this.#characters += text.length;
    this.#reading.read.hold(this.#characters * COPIES);
    this.#spans.push(spanOfObservation(observationOf(stored), texts, stored.createdAt));
    if (this.#characters >= ENCODED_CHARACTERS || this.#spans.length >= STEP_ROWS) {
      await this.flush();
    }
  }

  async flush(): Promise<void> {
    if (this.#spans.length === 0) return;
    const request = await encodeOwnSpans(OBSERVATION_ORIGIN, this.#spans, this.#encoding);
    this.#spans = [];
    this.#characters = 0;
    await this.#out.add(this.#encoding === 'json' ? resourceSpansIn(request) : request);
  }
}

/** A merged observation as one event. */
function observationOf(stored: StoredObservation): Observation {
  const { projectId: _project, source: _source, payload: _payload, state, ...fields } = stored;
  const { createdAt: _created, updatedAt: _updated, ...observation } = fields;
  const operation = state === 'error' ? 'error' : stored.ended ? 'finish' : 'start';
  return { ...observation, operation, index: 0, payloadMask: 0 };
}
