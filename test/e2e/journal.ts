import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type Answer, json, list, record, send } from './client.ts';
import { encodeTraces } from './otlp-messages.ts';

/** The target of the requests. */
export type Target = { readonly base: string; readonly key: string };

/** One request in the client's journal. Every request has its own trace. */
export type Entry = {
  readonly format: 'native' | 'runs' | 'otlp';
  readonly traceId: string;
  /** A marker that occurs once in the accepted part of the body, to find it in the bytes of a store. */
  readonly marker: string;
  /** Empty if the whole request must be refused. */
  readonly items: readonly Item[];
  /** Ids of items that must be rejected. Their content has a marker that must not be stored. */
  readonly bad: readonly string[];
  state: 'sent' | 'acknowledged' | 'refused';
  /** Status of the answer; 0 without an answer. */
  status: number;
  /** Where the request went, and when it began and ended. */
  base: string;
  sentAt: number;
  answeredAt: number;
};

type Item = { readonly id: string; readonly name: string; readonly input: string };

const CLIENTS = 8;

type LoadOptions = {
  readonly clients?: number;
  /** Statuses that leave the outcome open: the request may be stored. */
  readonly open?: readonly number[];
  /** Pause after each request, in milliseconds. */
  readonly restMs?: () => number;
};

/** Clients that each send requests in turn until the daemon ends. */
export function startLoad(
  target: () => Target,
  journal: Entry[],
  { clients = CLIENTS, open = [], restMs = () => 0 }: LoadOptions = {},
): { stop(): Promise<void> } {
  let stopped = false;
  const client = async () => {
    while (!stopped) {
      const { entry, ...call } = makeRequest();
      journal.push(entry);
      const { base, key } = target();
      entry.base = base;
      entry.sentAt = Date.now();
      try {
        const answer = await send(base, {
          ...call,
          headers: { ...call.headers, authorization: `Bearer ${key}` },
        });
        entry.status = answer.status;
        entry.state = stateOf(answer, open);
      } catch {
        // No answer: the outcome is open, and the daemon may have ended.
        await sleep(5);
      }
      entry.answeredAt = Date.now();
      if (restMs() > 0) await sleep(restMs());
    }
  };
  const running = Array.from({ length: clients }, client);
  return {
    stop: async () => {
      stopped = true;
      await Promise.all(running);
    },
  };
}

function stateOf({ status }: Answer, open: readonly number[]): Entry['state'] {
  if (status === 200 || status === 202) return 'acknowledged';
  return open.includes(status) ? 'sent' : 'refused';
}

type Request = {
  readonly entry: Entry;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

const UNSENT = { state: 'sent', status: 0, base: '', sentAt: 0, answeredAt: 0 } as const;

function makeRequest(): Request {
  const makers = [nativeRequest, runsRequest, otlpRequest];
  return (makers[randomInt(makers.length)] ?? nativeRequest)();
}

function nativeRequest(): Request {
  const traceId = randomUUID();
  const marker = makeMarker();
  const isRefused = randomInt(12) === 0;
  const items = isRefused ? [] : makeItems(() => randomUUID());
  const bad = isRefused || randomInt(4) === 0 ? [randomUUID()] : [];
  const event = { trace_id: traceId, operation: 'finish', kind: 'llm', status: 'ok' };
  const good = items.map(({ id, name, input }, index) => ({
    ...{ ...event, id, name, inputs: { input } },
    ...(index === 0 ? { metadata: { marker } } : {}),
  }));
  const rejected = bad.map((id) => ({ ...event, id, kind: 'nonsense', inputs: makeRefused() }));
  const body = Buffer.from(JSON.stringify({ events: [...good, ...rejected] }));
  return {
    entry: { format: 'native', traceId, marker, items, bad, ...UNSENT },
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json' },
    body,
  };
}

function runsRequest(): Request {
  const traceId = randomUUID();
  const marker = makeMarker();
  const items = makeItems(() => randomUUID());
  const post = items.map(({ id, name, input }, index) => ({
    id,
    trace_id: traceId,
    name,
    run_type: 'chain',
    inputs: { input },
    start_time: Date.now(),
    ...(index === 0 ? { extra: { metadata: { marker } } } : {}),
  }));
  return {
    entry: { format: 'runs', traceId, marker, items, bad: [], ...UNSENT },
    method: 'POST',
    path: '/api/v1/runs/batch',
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ post, patch: [] })),
  };
}

function otlpRequest(): Request {
  const traceId = randomBytes(16).toString('hex');
  const marker = makeMarker();
  const items = makeItems(() => randomBytes(8).toString('hex'));
  const isBad = randomInt(4) === 0;
  const spans = items.map(({ id, name, input }, index) => ({
    traceId,
    spanId: id,
    name,
    startTimeUnixNano: '1704067200000000000',
    endTimeUnixNano: '1704067201000000000',
    attributes: [
      { key: 'input', value: { stringValue: JSON.stringify({ input }) } },
      ...(index === 0 ? [{ key: 'marker', value: { stringValue: marker } }] : []),
    ],
  }));
  const bad = { traceId, spanId: '0000000000000000', name: makeRefused() };
  const body = encodeTraces({
    resourceSpans: [{ scopeSpans: [{ spans: isBad ? [...spans, bad] : spans }] }],
  });
  return {
    entry: {
      format: 'otlp',
      traceId,
      marker,
      items: items.map((item) => ({ ...item, id: `${traceId}:${item.id}` })),
      bad: isBad ? [`${traceId}:${bad.spanId}`] : [],
      ...UNSENT,
    },
    method: 'POST',
    path: '/api/public/otel/v1/traces',
    headers: { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' },
    body: gzipSync(body),
  };
}

function makeItems(makeId: () => string): Item[] {
  return Array.from({ length: randomInt(1, 20) }, (_, i) => ({
    id: makeId(),
    name: `item ${i}`,
    input: randomBytes(randomInt(1, 400)).toString('base64'),
  }));
}

function makeMarker(): string {
  return `kill-${randomBytes(12).toString('hex')}`;
}

/** The marker in rejected items. */
function makeRefused(): string {
  return `refused-${randomBytes(12).toString('hex')}`;
}

/** The markers found in the cells of a store, without knowledge of its tables. */
export class Sightings {
  readonly #bodies = new Map<string, number>();
  readonly #refused: string[] = [];

  /** `where` names the cell for the message. */
  look(cell: unknown, where: string): void {
    const isBytes = cell instanceof Uint8Array;
    const text = isBytes ? inflated(Buffer.from(cell)).toString('latin1') : textOf(cell);
    for (const [refused] of text.matchAll(/refused-[0-9a-f]{24}/g)) {
      this.#refused.push(`${refused} was rejected, and is in ${where}`);
    }
    if (!isBytes) return;
    for (const [marker] of text.matchAll(/kill-[0-9a-f]{24}/g)) {
      this.#bodies.set(marker, (this.#bodies.get(marker) ?? 0) + 1);
    }
  }

  /** Acknowledged requests occur once, refused ones do not, and open ones at most once. */
  problems(journal: readonly Entry[]): string[] {
    const wrong = journal.flatMap(({ marker, state, format, traceId }) => {
      const name = `${format} ${traceId} (${state})`;
      const times = this.#bodies.get(marker) ?? 0;
      if (times > 1) return [`${name}: its bytes are stored ${times} times`];
      if (times === 0 && state === 'acknowledged') return [`${name}: its bytes are not stored`];
      return times > 0 && state === 'refused' ? [`${name}: its bytes are stored`] : [];
    });
    return [...wrong, ...this.#refused];
  }
}

function textOf(cell: unknown): string {
  return typeof cell === 'object' ? JSON.stringify(cell) : String(cell);
}

/** A header and a trailer of gzip, the method "deflate". A key is random bytes, and one in 65,536 begins with the first two. */
const GZIP = { MAGIC: [0x1f, 0x8b, 0x08], LEAST_BYTES: 20 } as const;

function inflated(bytes: Buffer): Buffer {
  const isGzip =
    bytes.length >= GZIP.LEAST_BYTES && GZIP.MAGIC.every((byte, i) => bytes[i] === byte);
  return isGzip ? gunzipSync(bytes) : bytes;
}

export type Check = {
  problems: string[];
  /** Unanswered requests that are stored, and that are not. */
  stored: number;
  lost: number;
  /** Observations read back. */
  items: number;
};

/** Reads back every sent request. */
export async function compare(target: () => Target, journal: readonly Entry[]): Promise<Check> {
  const check: Check = { problems: [], stored: 0, lost: 0, items: 0 };
  const waiting = [...journal];
  const reader = async () => {
    for (let entry = waiting.pop(); entry !== undefined; entry = waiting.pop()) {
      await compareEntry(target(), entry, check);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, reader));
  return check;
}

async function compareEntry({ base, key }: Target, entry: Entry, check: Check): Promise<void> {
  const { traceId, format, state } = entry;
  const name = `${format} ${traceId} (${state})`;
  const answer = await send(base, {
    path: `/api/v1/traces/${traceId}?payloads=true&limit=1000`,
    headers: { authorization: `Bearer ${key}` },
  });
  if (answer.status === 404) {
    if (state === 'acknowledged') check.problems.push(`${name}: not there`);
    else if (state === 'sent') check.lost += 1;
    return;
  }
  if (answer.status !== 200) {
    check.problems.push(`${name}: reading it answers ${answer.status}`);
    return;
  }
  if (state === 'refused') check.problems.push(`${name}: refused, and stored`);
  if (state === 'sent') check.stored += 1;
  const observations = list(record(json(answer)).observations).map(record);
  check.items += observations.length;
  const byId = new Map(observations.map((one) => [String(one.id), one]));
  if (observations.length !== entry.items.length) {
    check.problems.push(`${name}: ${observations.length} of ${entry.items.length} items`);
  }
  for (const item of entry.items) {
    const found = byId.get(item.id);
    const input = found === undefined ? undefined : record(found.inputs ?? {}).input;
    if (found?.name !== item.name || input !== item.input) {
      check.problems.push(`${name}: ${item.id} is not what was sent`);
    }
  }
  for (const id of entry.bad) {
    if (byId.has(id)) check.problems.push(`${name}: ${id} was rejected, and is stored`);
  }
}
