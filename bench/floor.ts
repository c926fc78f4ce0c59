import { closeSync, fdatasync, mkdtempSync, openSync, rmSync, writev } from 'node:fs';
import { Agent, createServer, type ServerResponse, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync } from 'node:zlib';
import { TRACES_TYPE } from '../test/e2e/otlp-messages.ts';

/**
 * The floor of the benchmark: the least work that a server can do for the same promise.
 *   otlp    inflates, appends the body to a file, answers after the sync
 *   native  parses the JSON, appends, answers after the sync
 *   hop     as otlp; then sends the body on to the port that is the next argument
 *   store   as otlp; then decodes the spans and inserts the daemon's narrow rows with prepared statements
 * Requests that arrive during a sync share the next one. Prints its port, runs until it is killed.
 */
const LIMIT = 25 * 1024 * 1024;
const [mode, nextPort] = process.argv.slice(2);
const directory = mkdtempSync(join(tmpdir(), 'tracectl-floor-'));
const file = openSync(join(directory, 'log'), 'w');
const store = mode === 'store' ? openStore() : undefined;

type Waiting = { readonly bytes: Buffer; readonly done: () => void };
let waiting: Waiting[] = [];
let busy = false;

function append(bytes: Buffer, done: () => void): void {
  waiting.push({ bytes, done });
  if (busy) return;
  busy = true;
  setImmediate(commit);
}

function commit(): void {
  const group = waiting;
  waiting = [];
  if (group.length === 0) {
    busy = false;
    return;
  }
  writev(
    file,
    group.map((entry) => entry.bytes),
    (writeError) => {
      if (writeError !== null) throw writeError;
      fdatasync(file, (syncError) => {
        if (syncError !== null) throw syncError;
        for (const entry of group) entry.done();
        setImmediate(commit);
      });
    },
  );
}

function work(body: Buffer, response: ServerResponse): void {
  if (mode === 'native') {
    JSON.parse(body.toString('utf8'));
    append(body, () => answer(response, 202, 'application/json', '{"status":"queued"}'));
    return;
  }
  const inflated = inflate(body);
  append(body, () => {
    answer(response, 200, 'application/x-protobuf', '');
    store?.add(inflated);
    if (mode === 'hop') forward(body);
  });
}

/** As many requests at a time as the daemon has consumers in the comparison. */
const agent = new Agent({ keepAlive: true, maxSockets: 10 });
const FORWARDED = {
  agent,
  ...{ host: '127.0.0.1', port: nextPort, method: 'POST', path: '/v1/traces' },
};
const TYPE = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' };

function forward(body: Buffer): void {
  const headers = { ...TYPE, 'content-length': body.length };
  const forwarding = send({ ...FORWARDED, headers }, (next) => {
    if (next.statusCode !== 200) throw new Error(`the destination answered ${next.statusCode}`);
    next.resume();
  });
  forwarding.end(body);
}

/** The output size is known from the last four bytes, so that one allocation is enough. */
function inflate(body: Buffer): Buffer {
  const size = body.readUInt32LE(body.length - 4);
  return gunzipSync(body, {
    chunkSize: Math.min(LIMIT + 1, Math.max(1024, size + 1)),
    maxOutputLength: LIMIT,
  });
}

function answer(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, { 'content-type': type, 'content-length': text.length });
  response.end(text);
}

/** Decodes and inserts what was accepted, a transaction for all that waits. */
function openStore(): { add(body: Buffer): void; pending(): number } {
  const database = new DatabaseSync(join(directory, 'rows.db'));
  database.exec(`PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
    CREATE TABLE observation(
      project INT, trace TEXT, id TEXT, parent TEXT, name TEXT, kind TEXT, status TEXT,
      started INT, ended INT, model TEXT, usage TEXT, session TEXT, user TEXT, batch INT, position INT,
      PRIMARY KEY(project, trace, id)) WITHOUT ROWID;
    CREATE INDEX by_time ON observation(project, started);`);
  const insert = database.prepare(
    `INSERT INTO observation VALUES(1,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
     ON CONFLICT(project, trace, id) DO UPDATE SET status = excluded.status`,
  );
  let bodies: Buffer[] = [];
  let batch = 0;
  const drain = () => {
    const group = bodies;
    bodies = [];
    database.exec('BEGIN IMMEDIATE');
    for (const body of group) {
      batch += 1;
      let position = 0;
      for (const span of spansIn(body)) {
        const { kind, model, session, user, usage } = columnsOf(span);
        const traceId = hex(span.traceId);
        insert.run(
          traceId,
          `${traceId}:${hex(span.spanId)}`,
          span.parentSpanId.length === 0 ? null : hex(span.parentSpanId),
          span.name,
          kind,
          'success',
          Number(span.startTimeUnixNano),
          Number(span.endTimeUnixNano),
          model,
          usage,
          session,
          user,
          batch,
          position,
        );
        position += 1;
      }
    }
    database.exec('COMMIT');
  };
  return {
    add: (body) => {
      if (bodies.push(body) === 1) setImmediate(drain);
    },
    pending: () => bodies.length,
  };
}

type Value = { readonly stringValue: string; readonly intValue: unknown };
type Span = {
  readonly traceId: Uint8Array;
  readonly spanId: Uint8Array;
  readonly parentSpanId: Uint8Array;
  readonly name: string;
  readonly startTimeUnixNano: unknown;
  readonly endTimeUnixNano: unknown;
  readonly attributes: readonly { readonly key: string; readonly value: Value }[];
};
type Traces = {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly { readonly spans: readonly Span[] }[];
  }[];
};

function* spansIn(body: Buffer): Generator<Span> {
  const traces = TRACES_TYPE.decode(body) as unknown as Traces;
  for (const resource of traces.resourceSpans) {
    for (const scope of resource.scopeSpans) yield* scope.spans;
  }
}

function columnsOf(span: Span): Record<'kind' | 'model' | 'session' | 'user' | 'usage', string> {
  const columns = { kind: 'span', model: '', session: '', user: '', usage: '' };
  let input = 0;
  let output = 0;
  for (const { key, value } of span.attributes) {
    if (key === 'openinference.span.kind') columns.kind = value.stringValue.toLowerCase();
    else if (key === 'llm.model_name') columns.model = value.stringValue;
    else if (key === 'session.id') columns.session = value.stringValue;
    else if (key === 'user.id') columns.user = value.stringValue;
    else if (key === 'llm.token_count.prompt') input = Number(value.intValue);
    else if (key === 'llm.token_count.completion') output = Number(value.intValue);
  }
  columns.usage = `{"input_tokens":${input},"output_tokens":${output}}`;
  return columns;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    answer(response, 200, 'text/plain', String(store?.pending() ?? 0));
    return;
  }
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const first = chunks[0];
    work(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks), response);
  });
});
server.keepAliveTimeout = 3_600_000;
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});
process.on('SIGTERM', () => {
  closeSync(file);
  rmSync(directory, { recursive: true, force: true });
  process.exit(0);
});
