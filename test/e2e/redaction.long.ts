import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { config as redaction } from '../../processors/redaction/config.ts';
import { freePorts } from '../helper/free-ports.ts';
import { GZIP, grpcClient } from '../helper/grpc.ts';
import { attributesOf, encodeRequest } from '../helper/otlp-proto.ts';
import { startOtlpServer } from '../helper/otlp-server.ts';
import {
  CANARIES,
  type CanarySet,
  canarySet,
  type Hay,
  haysOf,
  haysOfDirectory,
  sightings,
  withOwnName,
} from './canaries.ts';
import { type Answer, eventually } from './client.ts';
import { redisValues, sql, startCluster } from './cluster.ts';
import { type Daemon, startDaemon, type Tree } from './daemon.ts';
import { treeAt } from './shipped.ts';

/**
 * Sends secrets in every field of every format, and searches everything that the daemons keep, write, forward and
 * answer. The same run without redaction proves that the search finds them.
 */
t.setTimeout(300_000);

const PROCESSOR = { rules: { phone: 'mask' } };

/** Secrets in valid items, and in items that are rejected. */
type Secrets = { readonly valid: CanarySet[]; readonly rejected: CanarySet[] };

/** All secrets of a set in one text, and the secret name in each form that texts have it. */
function textOf(set: CanarySet): string {
  const { named, ...rules } = set;
  const parts = Object.values(rules).map(({ text }) => text);
  return `before ${parts.join(' and ')}, {"password": "${named.text}"} after`;
}

/** JSON within a text, as attributes of spans and arguments of tools have it. */
function embedded(set: CanarySet): string {
  return JSON.stringify({
    messages: [{ content: textOf(set) }],
    auth: { password: set.named.text },
  });
}

type Sent = { readonly items: unknown[]; readonly secrets: Secrets };

function fieldsOf(set: () => CanarySet) {
  return {
    name: textOf(set()),
    inputs: { prompt: textOf(set()), password: set().named.text, deep: [[{ a: embedded(set()) }]] },
    outputs: textOf(set()),
    metadata: { note: textOf(set()), authorization: set().named.text },
    events: [{ name: textOf(set()), attributes: { a: embedded(set()) } }],
    error: { message: textOf(set()), type: textOf(set()), stacktrace: textOf(set()) },
  };
}

function collector(): { set: () => CanarySet; made: CanarySet[] } {
  const shared = canarySet();
  const made: CanarySet[] = [];
  const set = () => {
    const next = withOwnName(shared);
    made.push(next);
    return next;
  };
  return { set, made };
}

function nativeEvents(trace: string): Sent {
  const valid = collector();
  const rejected = collector();
  const base = { trace_id: trace, operation: 'finish', kind: 'llm', status: 'error' };
  const extra = (set: () => CanarySet) => ({
    custom_fields: { note: textOf(set()), password: set().named.text },
    session_id: textOf(set()),
    user_id: textOf(set()),
    something: textOf(set()),
  });
  return {
    items: [
      { ...base, id: `${trace}-1`, ...fieldsOf(valid.set), ...extra(valid.set) },
      {
        ...base,
        id: `${trace}-2`,
        ...fieldsOf(rejected.set),
        custom_fields: textOf(rejected.set()),
      },
      { ...base, trace_id: null, id: `${trace}-3`, ...fieldsOf(rejected.set) },
      { ...base, id: `${trace}-4`, kind: textOf(rejected.set()) },
    ],
    secrets: { valid: valid.made, rejected: rejected.made },
  };
}

function runs(trace: string): Sent {
  const valid = collector();
  const rejected = collector();
  const base = { trace_id: trace, run_type: 'llm', start_time: '2026-01-15T11:59:58.000Z' };
  const { metadata, error, ...fields } = fieldsOf(valid.set);
  return {
    items: [
      {
        ...{ ...base, id: `${trace}-1`, ...fields, error: Object.values(error).join('\n') },
        ...{
          extra: { metadata },
          tags: [textOf(valid.set())],
          serialized: { a: textOf(valid.set()) },
        },
      },
      { ...base, id: `${trace}-2`, ...fieldsOf(rejected.set), custom_fields: 'none' },
    ],
    secrets: { valid: valid.made, rejected: rejected.made },
  };
}

function spans(trace: string): Sent {
  const valid = collector();
  const rejected = collector();
  const { set } = valid;
  const span = (id: string, from: () => CanarySet) => ({
    ...{ traceId: trace, spanId: id.padStart(16, '0'), name: textOf(from()) },
    ...{ startTimeUnixNano: '1768478398000000000', endTimeUnixNano: '1768478399000000000' },
    attributes: attributesOf({
      'gen_ai.operation.name': 'chat',
      'gen_ai.input.messages': embedded(from()),
      'input.value': textOf(from()),
      'output.value': textOf(from()),
      'http.request.header.authorization': from().named.text,
      'app.list': [textOf(from()), { password: from().named.text }],
      custom: textOf(from()),
    }),
    events: [{ name: textOf(from()), attributes: attributesOf({ body: textOf(from()) }) }],
    links: [],
    status: { code: 2, message: textOf(from()) },
  });
  const scopeSpans = [
    {
      scope: { name: 'scope', attributes: attributesOf({ note: textOf(set()) }) },
      spans: [span('1', set), { ...span('2', rejected.set), parentSpanId: 'ff' }],
    },
  ];
  const resource = { attributes: attributesOf({ 'service.name': 'x', note: textOf(set()) }) };
  return {
    items: [{ resource, scopeSpans }],
    secrets: { valid: valid.made, rejected: rejected.made },
  };
}

type Request = { readonly path: string; readonly type: string; readonly body: Buffer };

const OTLP_PATH = '/api/public/otel/v1/traces';

function json(path: string, body: unknown, isEscaped: boolean): Request {
  const text = JSON.stringify(body);
  // An escape that JSON allows for any character.
  return {
    path,
    type: 'application/json',
    body: Buffer.from(isEscaped ? text.replaceAll('@', '\\u0040') : text),
  };
}

type Made = {
  readonly requests: readonly Request[];
  readonly messages: readonly Buffer[];
  readonly secrets: Secrets;
};

/** A request of each format; `round` makes the ids unique. Messages are for gRPC. */
function requestsOf(round: number): Made {
  const isEscaped = round % 2 === 1;
  const trace = (n: number) => (round * 10 + n + 1).toString(16).padStart(32, 'c');
  const native = nativeEvents(`native-${round}`);
  const run = runs(`runs-${round}`);
  const asJson = spans(trace(0));
  const asProto = spans(trace(1));
  const overGrpc = spans(trace(2));
  const all = [native, run, asJson, asProto, overGrpc];
  return {
    requests: [
      json('/api/v1/observations/batch', { events: native.items }, isEscaped),
      json('/api/v1/runs/batch', { post: run.items, patch: [] }, isEscaped),
      json(OTLP_PATH, { resourceSpans: asJson.items }, isEscaped),
      {
        path: OTLP_PATH,
        type: 'application/x-protobuf',
        body: encodeRequest({ resourceSpans: asProto.items as object[] }),
      },
    ],
    messages: [encodeRequest({ resourceSpans: overGrpc.items as object[] })],
    secrets: {
      valid: all.flatMap(({ secrets }) => secrets.valid),
      rejected: all.flatMap(({ secrets }) => secrets.rejected),
    },
  };
}

type Given = {
  readonly call: (request: {
    path: string;
    headers: Record<string, string>;
    body: Buffer;
    method: 'POST';
  }) => Promise<Answer>;
  readonly grpc: string;
  readonly key: string;
};

/** Sends every format twice, as it is and compressed. Returns the secrets and all answers. */
async function sendAll(
  t: Test,
  { call, grpc, key }: Given,
): Promise<{ secrets: Secrets; answers: Hay[] }> {
  const answers: Hay[] = [];
  const made = [0, 1].map(requestsOf);
  for (const [round, { requests, messages }] of made.entries()) {
    for (const { path, type, body } of requests) {
      const isCompressed = round === 1;
      const answer = await call({
        method: 'POST',
        path,
        headers: {
          'content-type': type,
          'x-api-key': key,
          ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
        },
        body: isCompressed ? gzipSync(body) : body,
      });
      t.ok(answer.status === 200 || answer.status === 202, `${path} ${type}: ${answer.status}`);
      answers.push({ where: `answer of ${path}`, bytes: answer.body });
    }
    const client = grpcClient(t, grpc, round === 1 ? GZIP : {});
    for (const message of messages) {
      const end = await client.call(message, { metadata: { 'x-api-key': key } });
      t.equal(end.code, 0, end.details);
      answers.push({
        where: 'answer over gRPC',
        bytes: Buffer.concat([end.message, Buffer.from(end.details)]),
      });
    }
  }
  return {
    secrets: {
      valid: made.flatMap(({ secrets }) => secrets.valid),
      rejected: made.flatMap(({ secrets }) => secrets.rejected),
    },
    answers,
  };
}

/** Traces of the valid items. */
const TRACES = 10;

/** The embedded shape, with files of both forms and a destination that refuses everything. */
async function startEmbedded(t: Test, isRedacting: boolean) {
  const sink = await startOtlpServer(t);
  sink.always({ status: 400, body: 'no' });
  const [grpc] = await freePorts(1);
  const daemon = await startDaemon(t, {
    edit(config) {
      const { exporters, service, processors } = config as Record<string, Tree>;
      const data = String(treeAt(config, 'extensions', 'sqlite').directory);
      treeAt(config, 'receivers', 'otlp', 'protocols').grpc = { endpoint: `127.0.0.1:${grpc}` };
      Object.assign(exporters ?? {}, {
        'file/observations': { path: join(data, 'files', 'observations.jsonl') },
        'file/raw': { path: join(data, 'files', 'raw.jsonl') },
        otlphttp: { endpoint: sink.url },
        debug: { verbosity: 'detailed', sampling_initial: 1000 },
      });
      const pipelines = (service?.pipelines ?? {}) as Record<string, Record<string, string[]>>;
      pipelines['traces/store']?.exporters?.push('file/observations', 'debug');
      pipelines['traces/raw'] = { receivers: ['disk_queue'], exporters: ['file/raw', 'otlphttp'] };
      if (!isRedacting) return;
      Object.assign(processors ?? {}, { redaction: PROCESSOR });
      pipelines['traces/accept']?.processors?.unshift('redaction');
    },
  });
  return { daemon, sink, grpc: `http://127.0.0.1:${grpc}` };
}

/** Sends everything, waits for the deliveries, and collects every byte that is left. */
async function haysOfEmbedded(
  t: Test,
  isRedacting: boolean,
): Promise<{ hays: Hay[]; secrets: Secrets }> {
  const { daemon, sink, grpc } = await startEmbedded(t, isRedacting);
  const call: Given['call'] = (request) => daemon.call(request);
  const { secrets, answers } = await sendAll(t, { call, grpc, key: daemon.key });
  const readBack = await storedTraces(daemon, daemon.key);
  const letters = await eventually(
    async () => JSON.parse((await daemon.cli('dead-letter', 'list', '--json')).stdout),
    ({ dead_letters: all }) => all.length >= TRACES,
    'a dead letter for each request',
    30_000,
  );
  const outputs: Hay[] = [...answers, ...readBack];
  for (const { id, queue } of letters.dead_letters) {
    const shown = await daemon.cli('dead-letter', 'show', String(id), '--queue', queue);
    outputs.push({ where: 'dead-letter show', bytes: Buffer.from(shown.stdout) });
  }
  // The log of rejections is written in the background.
  const rejections = await eventually(
    () => daemon.cli('rejections', 'list', '--json'),
    ({ stdout }) => JSON.parse(stdout).rejections.length >= 4,
    'four rejections',
    30_000,
  );
  outputs.push({ where: 'rejections list', bytes: Buffer.from(rejections.stdout) });
  for (const { body } of sink.requests) outputs.push(...haysOf('the destination', body));
  t.ok(sink.requests.length >= TRACES, 'the destination got the requests');
  const running = [...haysOfDirectory(daemon.directory)];
  await daemon.end('SIGTERM');
  outputs.push({ where: 'log', bytes: Buffer.from(daemon.stderr() + daemon.stdout()) });
  return { secrets, hays: [...outputs, ...running, ...haysOfDirectory(daemon.directory)] };
}

async function storedTraces(daemon: Daemon, key: string): Promise<Hay[]> {
  const listed = await eventually(
    () => daemon.call({ path: '/api/v1/traces?limit=100', headers: { 'x-api-key': key } }),
    ({ status, body }) => status === 200 && JSON.parse(body.toString()).traces.length >= TRACES,
    'all traces',
    30_000,
  );
  const { traces } = JSON.parse(listed.body.toString()) as { traces: { id: string }[] };
  const hays: Hay[] = [{ where: 'the list of traces', bytes: listed.body }];
  for (const { id } of traces) {
    const path = `/api/v1/traces/${encodeURIComponent(id)}?payloads=true`;
    const { body } = await daemon.call({ path, headers: { 'x-api-key': key } });
    hays.push({ where: 'a trace', bytes: body });
  }
  return hays;
}

t.test('every built-in rule has a canary', async (t) => {
  const rules = Object.keys(redaction.parse({}).rules).sort();
  t.same(Object.keys(CANARIES).sort(), rules);
});

t.test('embedded: finds every secret without redaction', async (t) => {
  const { hays, secrets } = await haysOfEmbedded(t, false);
  const found = sightings(hays, secrets.valid);
  for (const [i, set] of secrets.valid.entries()) {
    const rules = Object.keys(set).filter((rule) =>
      [...found].some((sighting) => sighting.startsWith(`${rule} of set ${i} in `)),
    );
    t.ok(rules.includes('named'), `finds a secret of set ${i}`);
  }
  for (const rule of Object.keys(CANARIES)) {
    t.ok(
      [...found].some((sighting) => sighting.startsWith(`${rule} of`)),
      `finds ${rule}`,
    );
  }
  for (const place of [
    'store.db',
    'raw.jsonl',
    'observations.jsonl',
    'the destination',
    'a trace',
    'log',
  ]) {
    t.ok(
      [...found].some((sighting) => sighting.includes(place)),
      `searches ${place}`,
    );
  }
  t.same([...sightings(hays, secrets.rejected)], [], 'rejected items are never stored');
});

t.test('embedded: keeps no secret with redaction', async (t) => {
  const { hays, secrets } = await haysOfEmbedded(t, true);
  t.same([...sightings(hays, [...secrets.valid, ...secrets.rejected])].slice(0, 20), []);
});

t.test('gateway and worker: keep no secret in Postgres, Redis, files and logs', async (t) => {
  for (const isRedacting of [false, true]) {
    await t.test(isRedacting ? 'with redaction' : 'the search finds them without', async (t) => {
      const { hays, secrets } = await haysOfCluster(t, isRedacting);
      const found = [...sightings(hays, [...secrets.valid, ...secrets.rejected])];
      if (isRedacting) {
        t.same(found.slice(0, 20), []);
        return;
      }
      for (const place of ['postgres batches', 'postgres observations', 'traces.jsonl']) {
        t.ok(
          found.some((sighting) => sighting.includes(place)),
          `searches ${place}`,
        );
      }
    });
  }
});

async function haysOfCluster(
  t: Test,
  isRedacting: boolean,
): Promise<{ hays: Hay[]; secrets: Secrets }> {
  let archive = '';
  const cluster = await startCluster(t, {
    gateways: 1,
    workers: 1,
    gateway(config) {
      if (!isRedacting) return;
      treeAt(config, 'processors').redaction = PROCESSOR;
      treeAt(config, 'service', 'pipelines', 'traces/accept').processors = [
        'redaction',
        ...(treeAt(config, 'service', 'pipelines', 'traces/accept').processors as string[]),
      ];
    },
    worker(config) {
      archive = join(t.testdir(), 'traces.jsonl');
      treeAt(config, 'exporters').file = { path: archive };
    },
  });
  const [gateway] = cluster.gateways;
  if (gateway === undefined) throw new Error('the cluster has no gateway');
  const grpc = String(
    treeAt(
      JSON.parse(readFileSync(gateway.configPath, 'utf8')),
      'receivers',
      'otlp',
      'protocols',
      'grpc',
    ).endpoint,
  );
  const { key } = cluster;
  const call: Given['call'] = (request) => gateway.call(request);
  const { secrets, answers } = await sendAll(t, { call, grpc: `http://${grpc}`, key });
  // Redis holds its jobs until the worker has finished them.
  const hays: Hay[] = [...answers, ...(await redisHays(cluster.redis))];
  await cluster.drained();
  hays.push(...(await storedTraces(gateway, key)), ...(await redisHays(cluster.redis)));
  const tables = await sql(
    cluster.database,
    `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
  );
  for (const { relname } of tables) {
    for (const row of await sql(cluster.database, `SELECT * FROM "${String(relname)}"`)) {
      for (const [column, cell] of Object.entries(row)) {
        hays.push(...haysOf(`postgres ${String(relname)}.${column}`, cell));
      }
    }
  }
  for (const daemon of [...cluster.gateways, ...cluster.workers]) {
    await daemon.end('SIGTERM');
    hays.push({ where: 'log', bytes: Buffer.from(daemon.stderr() + daemon.stdout()) });
    hays.push(...haysOfDirectory(daemon.directory));
  }
  hays.push(...haysOf(archive, readFileSync(archive)));
  return { hays, secrets };
}

async function redisHays(redis: Parameters<typeof redisValues>[0]): Promise<Hay[]> {
  const values = await redisValues(redis);
  return values.map(([key, value]) => ({ where: `redis ${key}`, bytes: Buffer.from(value) }));
}
