import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type Answer, eventually, json, list, record, send } from './client.ts';
import { type Daemon, prepareDaemon, total } from './daemon.ts';
import { encodeTraces } from './otlp-messages.ts';

/**
 * Kills the daemon with SIGKILL at random moments under load, starts it again, and holds the store against
 * a journal that the clients kept: what was acknowledged is there exactly once and equal, what was rejected
 * is not, and what was never answered is there whole or not at all.
 *
 *   node test/e2e/kill.ts --kills 50
 */
export type Summary = {
  readonly kills: number;
  readonly requests: number;
  readonly acknowledged: number;
  readonly items: number;
  /** Requests without an answer that were stored nevertheless, whole. */
  readonly unansweredStored: number;
  readonly unansweredLost: number;
  readonly refused: number;
  /** Sentences about what does not hold; empty when all is well. */
  readonly problems: readonly string[];
};

/** One request as the client remembers it. Every request has a trace of its own. */
type Entry = {
  readonly format: 'native' | 'runs' | 'otlp';
  readonly traceId: string;
  /** Stands once in the body, so that the request's bytes are found in the store's files. */
  readonly marker: string;
  readonly items: readonly Item[];
  /** Ids of items that must be rejected. */
  readonly bad: readonly string[];
  state: 'sent' | 'acknowledged' | 'refused';
};

type Item = { readonly id: string; readonly name: string; readonly input: string };

const CLIENTS = 8;

export async function killLoop(kills: number, progress: (text: string) => void): Promise<Summary> {
  const daemon = await prepareDaemon();
  try {
    const journal: Entry[] = [];
    for (let kill = 0; kill < kills; kill++) {
      await daemon.start();
      const load = startLoad(daemon, journal);
      await sleep(randomInt(20, 500));
      await daemon.end('SIGKILL');
      await load.stop();
      progress(`kill ${kill + 1} of ${kills}, ${journal.length} requests`);
    }
    await daemon.start();
    await eventually(
      () => daemon.metrics(),
      (samples) => total(samples, 'tracectl_queue_entries') === 0,
      'an empty queue',
      60_000,
    );
    const check = await compare(daemon, journal);
    await daemon.end('SIGTERM');
    check.problems.push(...storedOnce(join(daemon.directory, 'data'), journal));
    return summarize(kills, journal, check);
  } finally {
    await daemon.remove();
  }
}

/** Clients that send one request after the other until the daemon is gone. */
function startLoad(daemon: Daemon, journal: Entry[]): { stop(): Promise<void> } {
  let stopped = false;
  const client = async () => {
    while (!stopped) {
      const { entry, ...call } = makeRequest();
      journal.push(entry);
      try {
        const answer = await send(daemon.base, {
          ...call,
          headers: { ...call.headers, authorization: `Bearer ${daemon.key}` },
        });
        entry.state = stateOf(answer);
      } catch {
        // No answer: whether it was stored is open. The daemon may be gone, or about to be.
        await sleep(5);
      }
    }
  };
  const clients = Array.from({ length: CLIENTS }, client);
  return {
    stop: async () => {
      stopped = true;
      await Promise.all(clients);
    },
  };
}

function stateOf({ status }: Answer): Entry['state'] {
  if (status === 200 || status === 202) return 'acknowledged';
  return 'refused';
}

type Request = {
  readonly entry: Entry;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

function makeRequest(): Request {
  const makers = [nativeRequest, runsRequest, otlpRequest];
  return (makers[randomInt(makers.length)] ?? nativeRequest)();
}

function nativeRequest(): Request {
  const traceId = randomUUID();
  const marker = makeMarker();
  const items = makeItems(() => randomUUID());
  const bad = randomInt(4) === 0 ? [randomUUID()] : [];
  const event = { trace_id: traceId, operation: 'finish', kind: 'llm', status: 'ok' };
  const events = [
    ...items.map(({ id, name, input }) => ({ ...event, id, name, inputs: { input } })),
    ...bad.map((id) => ({ ...event, id, kind: 'nonsense' })),
  ];
  const metadata = { ...events[0], metadata: { marker } };
  const body = Buffer.from(JSON.stringify({ events: [metadata, ...events.slice(1)] }));
  return {
    entry: { format: 'native', traceId, marker, items, bad, state: 'sent' },
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
    entry: { format: 'runs', traceId, marker, items, bad: [], state: 'sent' },
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
  const bad = { traceId, spanId: '0000000000000000', name: 'bad' };
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
      state: 'sent',
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

type Check = { problems: string[]; stored: number; lost: number };

async function compare(daemon: Daemon, journal: readonly Entry[]): Promise<Check> {
  const check: Check = { problems: [], stored: 0, lost: 0 };
  const waiting = [...journal];
  const reader = async () => {
    for (let entry = waiting.pop(); entry !== undefined; entry = waiting.pop()) {
      await compareEntry(daemon, entry, check);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, reader));
  return check;
}

async function compareEntry(daemon: Daemon, entry: Entry, check: Check): Promise<void> {
  const { traceId, format, state } = entry;
  const name = `${format} ${traceId} (${state})`;
  const answer = await daemon.call({ path: `/api/v1/traces/${traceId}?payloads=true&limit=1000` });
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

/**
 * Looks for the markers in every blob of every database file, without knowing the tables: the bytes of a
 * request must stand there once.
 */
function storedOnce(directory: string, journal: readonly Entry[]): string[] {
  const seen = new Map<string, number>();
  for (const file of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(db|sqlite3?)$/.test(file)) continue;
    for (const text of blobs(join(directory, file))) {
      for (const [marker] of text.matchAll(/kill-[0-9a-f]{24}/g)) {
        seen.set(marker, (seen.get(marker) ?? 0) + 1);
      }
    }
  }
  return journal.flatMap(({ marker, state, traceId }) => {
    const times = seen.get(marker) ?? 0;
    if (times > 1) return [`${traceId} (${state}): its bytes are stored ${times} times`];
    return times === 0 && state === 'acknowledged' ? [`${traceId}: its bytes are not stored`] : [];
  });
}

function* blobs(path: string): Generator<string> {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    for (const { name } of tables) {
      for (const row of database.prepare(`SELECT * FROM "${String(name)}"`).iterate()) {
        for (const value of Object.values(row)) {
          if (value instanceof Uint8Array) yield inflated(Buffer.from(value)).toString('latin1');
        }
      }
    }
  } finally {
    database.close();
  }
}

function inflated(bytes: Buffer): Buffer {
  return bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes;
}

function summarize(kills: number, journal: readonly Entry[], check: Check): Summary {
  const acknowledged = journal.filter(({ state }) => state === 'acknowledged');
  return {
    kills,
    requests: journal.length,
    acknowledged: acknowledged.length,
    items: acknowledged.reduce((sum, { items }) => sum + items.length, 0),
    unansweredStored: check.stored,
    unansweredLost: check.lost,
    refused: journal.filter(({ state }) => state === 'refused').length,
    problems: check.problems,
  };
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { kills: { type: 'string', default: '50' } } });
  const print = (text: string) => void process.stdout.write(`${text}\n`);
  const { problems, ...counts } = await killLoop(Number(values.kills), print);
  for (const problem of problems.slice(0, 50)) print(problem);
  print(
    `${JSON.stringify(counts)} ${problems.length === 0 ? 'ok' : `${problems.length} problems`}`,
  );
  process.exitCode = problems.length === 0 ? 0 : 1;
}
