import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { json, list, record, send } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { encodeTraces, type WireSpan } from './otlp-messages.ts';

t.setTimeout(300_000);

const TRACE = 'a'.repeat(31);
const TRACES = '/api/public/otel/v1/traces';
const BATCH = '/api/v1/observations/batch';

const adminToken = (daemon: Daemon) =>
  readFileSync(join(daemon.directory, 'data', 'admin-token'), 'utf8').trim();
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

async function post(
  daemon: Daemon,
  key: string,
  path: string,
  type: string,
  body: Buffer | string,
) {
  const headers = { ...bearer(key), 'content-type': type };
  const { status, body: answer } = await send(daemon.base, { method: 'POST', path, headers, body });
  if (status >= 300) throw new Error(`${path}: ${status} ${answer.toString()}`);
}

function get(daemon: Daemon, key: string, path: string, accept = 'application/json') {
  const headers = { ...bearer(key), accept };
  return send(daemon.base, { path: `/api/v1/traces/${path}`, headers, timeoutMs: 60_000 });
}

async function read(t: Test, daemon: Daemon, key: string, path: string) {
  const answer = await get(daemon, key, path);
  t.equal(answer.status, 200, `${path}: ${answer.body.toString().slice(0, 300)}`);
  return record(json(answer));
}

const span = (traceId: string, id: number, more: Partial<WireSpan> = {}): WireSpan => ({
  traceId,
  spanId: id.toString(16).padStart(16, '0'),
  name: `step ${id}`,
  startTimeUnixNano: String(1_763_672_400_000_000_123n + BigInt(id)),
  endTimeUnixNano: String(1_763_672_401_000_000_456n),
  attributes: [{ key: 'input.value', value: { stringValue: `in ${id} — ü` } }],
  status: { code: 1 },
  ...more,
});

const request = (spans: readonly WireSpan[], service: string) => ({
  resourceSpans: [
    {
      resource: { attributes: [{ key: 'service.name', value: { stringValue: service } }] },
      scopeSpans: [{ scope: { name: 'test' }, spans: [...spans] }],
    },
  ],
});

/** Adds a field of a later version of OTLP (number 999, a text) to the only ResourceSpans of a short request. */
function withUnknown(bytes: Buffer): Buffer {
  const start = (bytes[1] ?? 0) < 128 ? 2 : 3;
  const field = Buffer.from([0xba, 0x3e, 5, ...Buffer.from('later')]);
  const content = Buffer.concat([bytes.subarray(start), field]);
  const length = Buffer.of((content.length & 127) | 128, content.length >> 7);
  return Buffer.concat([bytes.subarray(0, 1), length, content]);
}

/** The answer about a trace, without the members that differ between projects. */
async function contentOf(t: Test, daemon: Daemon, key: string, traceId: string) {
  const { trace, observations } = await read(
    t,
    daemon,
    key,
    `${traceId}?payloads=true&limit=1000&wait=20s`,
  );
  const { key_id: _key, source: _source, ...own } = record(trace);
  const each = list(observations).map((one) => {
    const { project_id: _project, created_at: _at, updated_at: _then, ...rest } = record(one);
    const { source: _kind, event_version: _version, ...observation } = rest;
    return observation;
  });
  return { trace: own, observations: each };
}

t.test('waits for one trace, and reads it as OTLP', async (t) => {
  const daemon = await startDaemon(t);
  const { key } = daemon;
  const made = await daemon.cli('projects', 'create', 'copy', '--json');
  t.equal(made.code, 0);
  const other = (await daemon.cli('keys', 'create', '--project', 'copy')).stdout.trim();

  await t.test('a client that waits reads what it has just sent', async (t) => {
    for (let i = 0; i < 5; i++) {
      const body = JSON.stringify(request([span(`${TRACE}${i}`, 1)], 'shop'));
      await post(daemon, key, TRACES, 'application/json', body);
      const { observations } = await read(t, daemon, key, `${TRACE}${i}?wait=10s`);
      t.equal(list(observations).length, 1);
      const more = JSON.stringify(request([span(`${TRACE}${i}`, 2)], 'shop'));
      await post(daemon, key, TRACES, 'application/json', more);
      const tree = await read(t, daemon, key, `${TRACE}${i}?wait=10s&fields=tree`);
      t.equal(list(tree.observations).length, 2, 'the trace was there, and the span was not');
    }
  });

  await t.test('a trace that does not come is 404 after the time', async (t) => {
    const begun = performance.now();
    t.equal((await get(daemon, key, 'never?wait=400ms')).status, 404);
    t.ok(performance.now() - begun >= 400);
    t.equal((await get(daemon, key, 'never')).status, 404);
    for (const wait of ['31s', '30001ms', '5', '-1s', 'x']) {
      t.equal((await get(daemon, key, `never?wait=${wait}`)).status, 400, wait);
    }
  });

  await t.test('spans come out as the bytes that came in, and others encoded', async (t) => {
    const id = 'b'.repeat(32);
    const sent = withUnknown(Buffer.from(encodeTraces(request([span(id, 1)], 'one'))));
    await post(daemon, key, TRACES, 'application/x-protobuf', sent);
    await read(t, daemon, key, `${id}?wait=10s`);
    const out = await get(daemon, key, `${id}/otlp`, 'application/x-protobuf');
    t.match(out, { status: 200, headers: { 'content-type': 'application/x-protobuf' } });
    t.ok(out.body.equals(sent), 'with a field that is unknown here');
    const project = record(
      record(json(await send(daemon.base, { path: '/api/v1/me', headers: bearer(key) }))).project,
    );
    const path = `/api/v1/projects/${project.id}/traces/${id}/otlp`;
    const token = { authorization: `Bearer ${adminToken(daemon)}` };
    const byAdmin = await send(daemon.adminBase, { path, headers: token });
    t.equal(byAdmin.status, 200);
    const [resource] = list(record(json(byAdmin)).resourceSpans);
    t.match(resource, { scopeSpans: [{ spans: [{ name: 'step 1' }] }] });
    t.equal((await get(daemon, key, 'never/otlp')).status, 404);
  });

  await t.test('another project makes the same trace of it', async (t) => {
    const id = 'c'.repeat(32);
    const root = span(id, 1, { endTimeUnixNano: String(1_763_672_409_000_000_000n) });
    const first = [root, span(id, 2, { parentSpanId: root.spanId })];
    const noise = Array.from({ length: 300 }, (_, i) => span('d'.repeat(32), 100 + i));
    await post(
      daemon,
      key,
      TRACES,
      'application/json',
      JSON.stringify(request([...noise, ...first], 'one')),
    );
    const large = span(id, 3, {
      parentSpanId: root.spanId,
      attributes: [{ key: 'input.value', value: { stringValue: 'y'.repeat(700_000) } }],
    });
    const bytes = Buffer.from(encodeTraces(request([large, ...noise], 'two')));
    await post(daemon, key, TRACES, 'application/x-protobuf', bytes);
    const event = {
      observation_id: 'call-1',
      trace_id: id,
      parent_id: `${id}:${root.spanId}`,
      kind: 'llm',
      name: 'chat',
      start_time: '2025-11-20T21:00:02.123456Z',
      metadata: { custom_fields: { tenant: 'acme' }, more: [1.0, 1e2] },
    };
    const events = [
      { ...event, operation: 'start', inputs: { a: 1.0 } },
      {
        ...event,
        operation: 'finish',
        status: 'success',
        end_time: '2025-11-20T21:00:03Z',
        outputs: 'done',
        usage: { input_tokens: 7, output_tokens: 3 },
      },
    ];
    await post(daemon, key, BATCH, 'application/json', JSON.stringify({ events }));
    const ofSpan = {
      ...{ observation_id: `${id}:${span(id, 2).spanId}`, trace_id: id, operation: 'finish' },
      ...{ kind: 'tool', name: 'the event', status: 'success', user_id: 'jane' },
      ...{ start_time: '2025-11-20T21:00:00Z', outputs: ['of the event', 1.0] },
      metadata: { custom_fields: { tier: 'gold' }, note: 'of the event' },
    };
    await post(daemon, key, BATCH, 'application/json', JSON.stringify({ events: [ofSpan] }));
    const before = await contentOf(t, daemon, key, id);
    t.equal(before.observations.length, 4);
    const both = before.observations.find((one) => one.id === ofSpan.observation_id);
    t.match(both, {
      ...{ name: 'the event', inputs: 'in 2 — ü', outputs: ofSpan.outputs, user_id: 'jane' },
      custom_fields: { tier: 'gold' },
    });

    for (const accept of ['application/x-protobuf', 'application/json']) {
      const out = await get(daemon, key, `${id}/otlp`, accept);
      t.equal(out.status, 200);
      if (accept === 'application/json') {
        const spans = list(record(json(out)).resourceSpans);
        t.ok(spans.length >= 3);
        t.match(out.body.toString(), /"custom_fields\.tier"/, 'the native part of a span');
      }
      await post(daemon, other, TRACES, accept, out.body);
      const after = await contentOf(t, daemon, other, id);
      t.same(after, before, accept);
    }
  });
});
