import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { JsonLogsSerializer, ProtobufLogsSerializer } from '@opentelemetry/otlp-transformer';
import { resourceFromAttributes } from '@opentelemetry/resources';
import t, { type Test } from 'tap';
import { otlpJsonBody } from '../helper/batches.ts';
import { freePorts } from '../helper/free-ports.ts';
import { EXPORT_LOGS, grpcClient } from '../helper/grpc.ts';
import { attributesOf, encodeRequest, requestOf, spanOf } from '../helper/otlp-proto.ts';
import { type Answer, eventually, json, list, record } from './client.ts';
import { type Daemon, prepareDaemon, startDaemon, total } from './daemon.ts';
import { replaceConfig, shippedConfig, treeAt } from './shipped.ts';

/** Log records as OpenTelemetry's own serializers write them, sent to the real daemon. */

t.setTimeout(120_000);

type Tree = Record<string, unknown>;
type LogRecords = Parameters<typeof ProtobufLogsSerializer.serializeRequest>[0];

t.test('log events of model calls become observations', async (t) => {
  const [port] = await freePorts(1);
  const endpoint = `127.0.0.1:${port}`;
  const daemon = await startDaemon(t, {
    config: {
      receivers: { otlp: { protocols: { grpc: { endpoint } } } },
      processors: { redaction: {}, filter: { exclude: [{ name: 'claude_code.skill_activated' }] } },
    },
    edit(config) {
      treeAt(config, 'service', 'pipelines', 'traces/accept').processors = [
        ...['auth', 'validation', 'custom_fields', 'redaction', 'filter', 'quotas'],
      ];
    },
  });
  t.match(daemon.stdout(), '/v1/logs');
  await t.test('a prompt of Claude Code is one trace, over HTTP', (t) => overHttp(t, daemon));
  await t.test('the same over gRPC', (t) => overGrpc(t, daemon, `http://${endpoint}`));
  await t.test('a repeated request stores nothing twice', (t) => repeated(t, daemon));
  await t.test('events are joined to their span, before and after it', (t) => joined(t, daemon));
  await t.test('recorded requests of a real client are joined', (t) => recorded(t, daemon));
  await t.test('processors see events as spans', (t) => processed(t, daemon));
  await t.test('other records are rejected, and a key is needed', (t) => refused(t, daemon));
  await t.test('a hop forwards them to another tracectl', (t) => overHop(t, daemon));
});

const SCOPE = { name: 'com.anthropic.claude_code.events', version: '2.1.214' };

/** The events of one prompt, as Claude Code emits them. */
function promptEvents(session: string): Readonly<Record<string, unknown>>[] {
  const prompt = randomUUID();
  const common = { 'session.id': session, 'prompt.id': prompt, 'user.id': 'a3f1' };
  const events: [string, Tree][] = [
    ['user_prompt', { prompt: 'Fix the test', prompt_length: '12' }],
    [
      'api_request',
      {
        model: 'claude-sonnet-5',
        input_tokens: '12',
        output_tokens: '34',
        cache_read_tokens: '100',
        cache_creation_tokens: '0',
        cost_usd: '0.0125',
        duration_ms: '1500',
        request_id: 'req_1',
      },
    ],
    ['assistant_response', { request_id: 'req_1', response: 'Done.', model: 'claude-sonnet-5' }],
    ['tool_decision', { tool_name: 'Bash', tool_use_id: 'u1', decision: 'accept' }],
    [
      'tool_result',
      { tool_name: 'Bash', tool_use_id: 'u1', success: 'false', error: 'boom', duration_ms: '5' },
    ],
    ['api_error', { model: 'claude-sonnet-5', error: 'overloaded', status_code: 529 }],
  ];
  return events.map(([event, more], i) => ({
    ...common,
    'event.name': event,
    'event.timestamp': new Date(Date.now() + i).toISOString(),
    'event.sequence': i,
    ...more,
  }));
}

function recordsOf(events: readonly Tree[]): LogRecords {
  const common = {
    resource: resourceFromAttributes({ 'service.name': 'claude-code' }),
    instrumentationScope: SCOPE,
    droppedAttributesCount: 0,
  };
  return events.map((attributes) => {
    const at = Date.parse(String(attributes['event.timestamp']));
    const hrTime: [number, number] = [Math.floor(at / 1000), (at % 1000) * 1_000_000];
    const body = `claude_code.${String(attributes['event.name'])}`;
    return { ...common, hrTime, hrTimeObserved: hrTime, body, attributes };
  }) as LogRecords;
}

function bodyOf(events: readonly Tree[], encoding: 'proto' | 'json' = 'proto'): Buffer {
  const serializer = encoding === 'proto' ? ProtobufLogsSerializer : JsonLogsSerializer;
  return Buffer.from(serializer.serializeRequest(recordsOf(events)) ?? []);
}

function post(
  daemon: Daemon,
  body: Buffer | string,
  more: Readonly<Record<string, string>> = {},
  path = '/v1/logs',
): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${daemon.key}`,
    'content-type': 'application/x-protobuf',
    ...more,
  };
  return daemon.call({ method: 'POST', path, headers, body });
}

type Found = { readonly trace: Tree; readonly observations: readonly Tree[] };

/** The traces of a session, each with its observations. */
async function tracesOf(daemon: Daemon, session: string): Promise<Found[]> {
  const listed = await daemon.call({ path: `/api/v1/traces?q=session:${session}` });
  const traces = list(record(json(listed)).traces).map(record);
  return Promise.all(
    traces.map(async ({ id }) => {
      const answer = await daemon.call({ path: `/api/v1/traces/${id}?payloads=true` });
      const whole = record(json(answer));
      return { trace: record(whole.trace), observations: list(whole.observations).map(record) };
    }),
  );
}

/** The events of the prompt, of which two are about observations of others, are all stored. */
function isComplete([found]: readonly Found[]): boolean {
  const by = new Map(found?.observations.map((one) => [one.name, one]));
  return (
    by.size === 4 &&
    // The trace is read before its observations.
    found?.trace.observation_count === 4 &&
    found.trace.usage !== null &&
    by.get('claude_code')?.inputs !== undefined &&
    by.get('claude_code.api_request')?.outputs !== undefined &&
    by.get('Bash')?.ended === true
  );
}

async function isWholePrompt(t: Test, daemon: Daemon, session: string): Promise<void> {
  const [found, ...more] = await eventually(
    () => tracesOf(daemon, session),
    isComplete,
    `the prompt of session ${session}`,
  );
  t.equal(more.length, 0, 'one trace');
  const { trace, observations } = found ?? { trace: {} as Tree, observations: [] };
  t.match(trace, {
    name: 'claude_code',
    session_id: session,
    user_id: 'a3f1',
    state: 'finished',
    error_count: 2,
    observation_count: 4,
    input_preview: 'Fix the test',
    usage: { input_tokens: 112, output_tokens: 34, total_tokens: 146 },
    cost: { total: 0.0125 },
  });
  const of = (name: string) => observations.find((one) => one.name === name) ?? {};
  const root = of('claude_code');
  t.match(root, { kind: 'agent', ended: true, inputs: 'Fix the test', parent_id: null });
  t.match(of('claude_code.api_request'), {
    kind: 'generation',
    status: 'success',
    model: 'claude-sonnet-5',
    provider: 'anthropic',
    parent_id: root.id,
    usage: { cached_tokens: 100 },
    outputs: 'Done.',
    latency_ms: 1500,
  });
  t.match(of('Bash'), { kind: 'tool', status: 'error', error: { message: 'boom' } });
  t.match(of('claude_code.api_error'), { status: 'error', error: { message: 'overloaded' } });
}

async function overHttp(t: Test, daemon: Daemon): Promise<void> {
  for (const encoding of ['proto', 'json'] as const) {
    const session = randomUUID();
    const type = encoding === 'json' ? { 'content-type': 'application/json' } : {};
    const body = gzipSync(bodyOf(promptEvents(session), encoding));
    const answer = await post(daemon, body, { ...type, 'content-encoding': 'gzip' });
    t.equal(answer.status, 200);
    t.equal(String(answer.body), encoding === 'json' ? '{}' : '');
    await isWholePrompt(t, daemon, session);
  }
}

async function overGrpc(t: Test, daemon: Daemon, url: string): Promise<void> {
  const session = randomUUID();
  const metadata = { authorization: `Bearer ${daemon.key}` };
  const client = grpcClient(t, url);
  // An event for each call: the order of arrival means nothing.
  for (const event of promptEvents(session).reverse()) {
    const end = await client.call(bodyOf([event]), { path: EXPORT_LOGS, metadata });
    t.match(end, { code: 0, message: Buffer.alloc(0) });
  }
  await isWholePrompt(t, daemon, session);
  t.match(await client.call(bodyOf([]), { path: EXPORT_LOGS }), { code: 16 }, 'without a key');
}

async function repeated(t: Test, daemon: Daemon): Promise<void> {
  const session = randomUUID();
  const events = promptEvents(session);
  for (const body of [bodyOf(events), bodyOf(events), bodyOf(events, 'json')]) {
    const type = body[0] === 0x7b ? 'application/json' : 'application/x-protobuf';
    t.equal((await post(daemon, body, { 'content-type': type })).status, 200);
  }
  // The last batch is read when this one is.
  const next = randomUUID();
  await post(daemon, bodyOf(promptEvents(next)));
  await isWholePrompt(t, daemon, next);
  await isWholePrompt(t, daemon, session);
}

async function joined(t: Test, daemon: Daemon): Promise<void> {
  for (const order of ['span first', 'logs first'] as const) {
    const ids = {
      traceId: randomBytes(16).toString('hex'),
      spanId: randomBytes(8).toString('hex'),
    };
    const span = spanOf(1, {
      ...ids,
      name: 'chat small-1',
      status: { code: 1 },
      attributes: attributesOf({ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm' }),
    });
    const logs = (eventName: string, body: Tree) => ({
      eventName,
      ...ids,
      timeUnixNano: '1704067200500000000',
      body: { kvlistValue: { values: attributesOf(body) } },
    });
    const form = {
      resourceLogs: [
        {
          scopeLogs: [
            {
              logRecords: [
                logs('gen_ai.system.message', { content: 'Be brief.' }),
                logs('gen_ai.user.message', { content: 'Hi' }),
                logs('gen_ai.choice', { index: 0, message: { content: 'Hello' } }),
              ],
            },
          ],
        },
      ],
    };
    const sendSpan = () => post(daemon, encodeRequest(requestOf([span])), {}, '/v1/traces');
    const sendLogs = () =>
      post(daemon, JSON.stringify(form), { 'content-type': 'application/json' });
    const isStored = () =>
      eventually(
        () => daemon.call({ path: `/api/v1/traces/${ids.traceId}?payloads=true` }),
        ({ status }) => status === 200,
        'the trace',
      );
    for (const sending of order === 'span first' ? [sendSpan, sendLogs] : [sendLogs, sendSpan]) {
      t.equal((await sending()).status, 200);
      await isStored();
    }
    const answer = await eventually(
      () => daemon.call({ path: `/api/v1/traces/${ids.traceId}?payloads=true` }),
      (seen) => {
        const [one] = list(record(json(seen)).observations).map(record);
        return one?.name === 'chat small-1' && one.inputs !== null && one.inputs !== undefined;
      },
      'the span with its messages',
    );
    const observations = list(record(json(answer)).observations).map(record);
    t.equal(observations.length, 1, order);
    t.match(observations[0], {
      id: `${ids.traceId}:${ids.spanId}`,
      kind: 'generation',
      status: 'success',
      ended: true,
      model: 'm',
      start_time: /^2024-01-01T00:00:00\.000000001/,
      inputs: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hi' },
      ],
      outputs: [{ message: { content: 'Hello' } }],
    });
    t.equal(list(observations[0]?.events).length, 3);
  }
}

/** Sent by opentelemetry-instrumentation-openai-v2 2.4b0 in Python, which puts the content of messages into events (`EVENT_ONLY`). */
async function recorded(t: Test, daemon: Daemon): Promise<void> {
  for (const signal of ['logs', 'traces']) {
    const file = new URL(`../fixtures/logs/openai-v2-${signal}.bin`, import.meta.url);
    const answer = await post(daemon, readFileSync(file), {}, `/v1/${signal}`);
    t.match(answer, { status: 200, body: Buffer.alloc(0) });
  }
  const isStored = ({ status, body }: Answer) =>
    status === 200 && String(body).includes('"name":"chat gpt-4o-mini"');
  const path = '/api/v1/traces/60d213ae7ebbaf2e4030e29125f5f0c0?payloads=true';
  const answer = await eventually(() => daemon.call({ path }), isStored, 'the recorded span');
  const observations = list(record(json(answer)).observations).map(record);
  t.equal(observations.length, 1);
  t.match(observations[0], {
    kind: 'generation',
    model: 'gpt-4o-mini-2024-07-18',
    usage: { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    inputs: [
      { role: 'system', parts: [{ type: 'text', content: 'Be brief.' }] },
      { role: 'user', parts: [{ type: 'text', content: 'How warm is it in Oslo?' }] },
    ],
    outputs: [{ role: 'assistant', parts: [{ content: 'It is 4 degrees in Oslo.' }] }],
  });
}

async function processed(t: Test, daemon: Daemon): Promise<void> {
  const session = randomUUID();
  const sent = promptEvents(session).map((event, i) => {
    if (event['event.name'] === 'user_prompt') return { ...event, prompt: 'Mail ada@example.com' };
    return i === 2 ? { ...event, 'event.name': 'skill_activated' } : event;
  });
  const accepted = async () =>
    total(await daemon.metrics(), 'tracectl_receiver_accepted_items_total');
  const before = await accepted();
  const answer = await post(daemon, bodyOf(sent));
  t.equal(String(answer.body), '', 'a dropped event is accepted');
  t.equal(await accepted(), before + sent.length);
  const [found] = await eventually(
    () => tracesOf(daemon, session),
    ([one]) => one?.observations.length === 4,
    'the prompt without the dropped event',
  );
  const names = found?.observations.map(({ name }) => name);
  t.notOk(names?.includes('claude_code.skill_activated'));
  const root = found?.observations.find(({ name }) => name === 'claude_code');
  t.match(root?.inputs, /^Mail /);
  t.notMatch(JSON.stringify(found), 'ada@example.com');
}

async function refused(t: Test, daemon: Daemon): Promise<void> {
  const lines = {
    resourceLogs: [{ scopeLogs: [{ logRecords: [{ body: { stringValue: 'x' } }] }] }],
  };
  const type = { 'content-type': 'application/json' };
  const answer = await post(daemon, JSON.stringify(lines), type);
  t.equal(answer.status, 200);
  t.match(json(answer), {
    partialSuccess: {
      rejectedLogRecords: 1,
      errorMessage: /gen_ai\.\*, claude_code\.\* and codex/,
    },
  });
  t.equal((await post(daemon, '{}', { ...type, authorization: 'Bearer ws_none' })).status, 401);
  t.equal((await post(daemon, otlpJsonBody([]), type)).status, 200, 'unknown members');
  const keyed = { ...type, 'idempotency-key': randomUUID() };
  const first = await post(daemon, JSON.stringify(lines), keyed);
  t.same(json(await post(daemon, JSON.stringify(lines), keyed)), json(first));
}

async function overHop(t: Test, daemon: Daemon): Promise<void> {
  const hop = await prepareDaemon({
    env: { UPSTREAM_KEY: daemon.key },
    edit(config) {
      const { endpoint } = treeAt(config, 'receivers', 'native');
      const health = { endpoint: treeAt(config, 'extensions', 'health_check').endpoint };
      const shipped = shippedConfig('hop.yaml');
      treeAt(shipped, 'extensions').health_check = health;
      treeAt(shipped, 'service').extensions = ['file_storage', 'health_check'];
      const protocols = treeAt(shipped, 'receivers', 'otlp', 'protocols');
      treeAt(protocols, 'http').endpoint = endpoint;
      delete protocols.grpc;
      const exporter = treeAt(shipped, 'exporters', 'otlphttp');
      exporter.endpoint = daemon.base;
      exporter.headers = { authorization: `Bearer ${daemon.key}` };
      replaceConfig(config, shipped);
    },
  });
  t.teardown(() => hop.remove());
  await hop.start();
  const session = randomUUID();
  const authorization = `Bearer ${daemon.key}`;
  const answer = await post(hop, bodyOf(promptEvents(session)), { authorization });
  t.equal(answer.status, 200);
  await isWholePrompt(t, daemon, session);
}
