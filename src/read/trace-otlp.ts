import type { Exchange } from '../http/exchange.ts';
import type { OtlpEncoding } from '../model/otlp/request-part.ts';
import { REQUEST_CLOSE, REQUEST_OPEN } from '../model/otlp/request-part.ts';
import type { StoredObservation, TraceSource } from '../store/store.ts';
import { preferredType } from './accept.ts';
import type { BytesAnswer } from './answer.ts';
import { bytesAnswer } from './answer.ts';
import type { PayloadReader } from './payloads.ts';
import { CutSpans, MadeSpans, SpanForms } from './span-parts.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';

const JSON_TYPE = 'application/json';
const PROTO_TYPE = 'application/x-protobuf';

/** Observations of one step. */
const STEP_ROWS = 200;
/** Characters of payloads that are encoded together. */
const ENCODED_CHARACTERS = 262_144;

/** About the memory of an observation that waits until its spans are written. */
const OBSERVATION_BYTES = 4_096;

/**
 * A trace as an ExportTraceServiceRequest. Spans are the bytes that came, with what is unknown here; each event that has a part in
 * an observation is a span of its own. Native events and runs become spans that another tracectl reads as the same observations.
 * An observation with events of both kinds is both: its spans, and behind them one that is made of all its events.
 *
 *   turn: rows of one step ─▶ native events and runs: payloads, encoded ─▶ write
 *                          └▶ spans: by batch ─▶ behind the last step, batch by batch: cut ─▶ write
 *                             observations of both ─▶ behind the spans: payloads, encoded ─▶ write
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
  const cut = new CutSpans(read, payloads, encoding);
  const made = new MadeSpans(read, encoding);
  const flush = async (): Promise<void> => {
    const part = await made.part();
    made.clear();
    if (part !== undefined) await out.add(part);
  };
  const make = async (observation: StoredObservation): Promise<void> => {
    made.add(observation, await read.turn(() => payloads.read(observation)));
    if (made.characters >= ENCODED_CHARACTERS || made.count >= STEP_ROWS) await flush();
  };
  const forms = new SpanForms(read, payloads);
  const ofBoth: StoredObservation[] = [];
  for await (const sources of steps(reading, payloads, traceId)) {
    for (const source of sources) {
      const { spans, isMade } = await forms.of(source);
      cut.reserve(spans);
      cut.add(spans);
      if (isMade && spans.length === 0) await make(source.observation);
      else if (isMade) {
        read.reservation.grow(OBSERVATION_BYTES);
        ofBoth.push(source.observation);
      }
    }
  }
  await flush();
  for await (const part of cut.parts()) await out.add(part);
  for (const observation of ofBoth) await make(observation);
  await flush();
  out.end();
}

/** The encoding that `Accept` prefers; JSON if it names neither. */
function encodingOf({ head }: Exchange): OtlpEncoding {
  const accept = String(head.headers.get('accept') ?? '*/*');
  return preferredType(accept, [JSON_TYPE, PROTO_TYPE]) === PROTO_TYPE ? 'proto' : 'json';
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
  const type = encoding === 'json' ? JSON_TYPE : PROTO_TYPE;
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
