import { spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { daemonEntry } from '../helper/daemon-bundle.ts';
import { PLAIN } from '../helper/plain-process.ts';
import { json, list, record, send } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { encodeTraces, type WireSpan, type WireTraces } from './otlp-messages.ts';

/** An export as OTLP, sent to another project, makes the same traces there. */

t.setTimeout(300_000);

const TRACES = '/api/public/otel/v1/traces';
const JSON_TYPE = 'application/json';

async function post(daemon: Daemon, path: string, body: Buffer | string, type = JSON_TYPE) {
  const headers = { 'content-type': type };
  const { status, body: answer } = await daemon.call({ method: 'POST', path, headers, body });
  const text = answer.toString();
  const isTaken = status < 300 && !/"rejected":[1-9]/.test(text);
  if (!isTaken) throw new Error(`${path}: ${status} ${text}`);
}

/** Values that a reader of JSON changes. */
const EXACT: NonNullable<WireSpan['attributes']> = [
  { key: 'largest', value: { intValue: '9223372036854775807' } },
  { key: 'smallest', value: { intValue: '-9223372036854775808' } },
  { key: 'not a number', value: { doubleValue: 'NaN' } },
  { key: 'bytes', value: { bytesValue: Buffer.from([0, 255, 254, 10]).toString('base64') } },
  {
    key: 'deep',
    value: { kvlistValue: { values: [{ key: 'in', value: { arrayValue: { values: [{}] } } }] } },
  },
];

const span = (traceId: string, id: number, more: Partial<WireSpan> = {}): WireSpan => ({
  traceId,
  spanId: id.toString(16).padStart(16, '0'),
  name: `step ${id}`,
  startTimeUnixNano: String(1_763_672_400_000_000_123n + BigInt(id)),
  endTimeUnixNano: String(1_763_672_401_000_000_456n),
  attributes: [{ key: 'input.value', value: { stringValue: `in ${id}\n— ü` } }, ...EXACT],
  events: [{ name: 'note', attributes: EXACT }],
  status: { code: 1 },
  ...more,
});

const request = (service: string, ...spans: readonly WireSpan[]): WireTraces => ({
  resourceSpans: [
    {
      resource: { attributes: [{ key: 'service.name', value: { stringValue: service } }] },
      scopeSpans: [{ scope: { name: 'test', version: '1' }, spans: [...spans] }],
    },
  ],
});

const ids = Array.from({ length: 4 }, (_, i) => String(i + 1).repeat(32));
const RUN = '0193b7a5-0000-7000-8000-000000000001';

/** Traces of every format, alone and mixed; batches have spans of several traces, and traces of several batches. */
async function sendAll(daemon: Daemon): Promise<string[]> {
  const [first = '', second = '', third = '', fourth = ''] = ids;
  const spread = ids.flatMap((id) => Array.from({ length: 70 }, (_, i) => span(id, 100 + i)));
  await post(daemon, TRACES, JSON.stringify(request('spread', ...spread), undefined, 2));
  // Two parts of one span: its inputs are in a batch, and its end is in another one.
  const open = span(first, 1, { endTimeUnixNano: '0' });
  await post(daemon, TRACES, JSON.stringify(request('one', open, span(second, 1))));
  const text = (length: number) => [
    { key: 'input.value', value: { stringValue: 'y'.repeat(length) } },
  ];
  const large = [1, 2, 3].map((i) => span(third, i, { attributes: text(700_000) }));
  const proto = request(
    'two',
    span(first, 1, { attributes: [] }),
    ...large,
    span(fourth, 1, { name: '' }),
  );
  await post(daemon, TRACES, Buffer.from(encodeTraces(proto)), 'application/x-protobuf');
  const event = {
    ...{ observation_id: 'call-1', trace_id: first, parent_id: `${first}:${span('', 1).spanId}` },
    ...{ kind: 'llm', name: 'chat', model: 'gpt-4o', user_id: 'jane', status: 'pending' },
    start_time: '2025-11-20T21:00:02.123456Z',
    metadata: { custom_fields: { tenant: 'acme' }, more: [1.0, 1e2] },
  };
  const events = [
    { ...event, operation: 'start', inputs: { a: 1.0, big: 1 } },
    {
      ...{ ...event, operation: 'finish', status: 'success', outputs: 'done\r\n' },
      ...{ end_time: '2025-11-20T21:00:03Z', usage: { input_tokens: 7, output_tokens: 3 } },
    },
    { ...event, trace_id: 'native only', observation_id: 'alone', operation: 'start', inputs: '' },
  ];
  const ofSpan = {
    ...{ observation_id: `${second}:${span('', 1).spanId}`, trace_id: second, user_id: 'jane' },
    ...{ start_time: '2025-11-20T21:00:00Z', operation: 'finish', status: 'success' },
    ...{ kind: 'tool', name: 'the event', outputs: ['of the event', 1.0] },
    metadata: { custom_fields: { tier: 'gold' }, note: 'of the event' },
  };
  const body = JSON.stringify({ events: [...events, ofSpan] }).replace(
    '"big":1',
    '"big":12345678901234567890.10',
  );
  await post(daemon, '/api/v1/observations/batch', body);
  const run = { id: RUN, trace_id: RUN, dotted_order: `20251120T210000000000Z${RUN}` };
  await post(
    daemon,
    '/api/v1/runs/batch',
    JSON.stringify({
      post: [
        {
          ...{ ...run, name: 'run', run_type: 'chain', start_time: '2025-11-20T21:00:00.5Z' },
          ...{ inputs: { q: 'x' }, session_name: 'default' },
        },
      ],
      patch: [{ ...run, end_time: '2025-11-20T21:00:01.25Z', outputs: { a: [1.5] }, error: 'no' }],
    }),
  );
  return [...ids, 'native only', RUN];
}

/** The answer about a trace, without the members that differ between projects. */
async function contentOf(daemon: Daemon, key: string, traceId: string, observations: number) {
  const path = `/api/v1/traces/${encodeURIComponent(traceId)}?payloads=true&limit=1000&wait=10s`;
  for (let tries = 0; ; tries++) {
    const answer = await send(daemon.base, {
      ...{ path, headers: { authorization: `Bearer ${key}` }, timeoutMs: 60_000 },
    });
    const found = answer.status === 200 ? record(json(answer)) : { trace: {}, observations: [] };
    if (list(found.observations).length < observations && tries < 10) continue;
    const { key_id: _key, source: _source, ...trace } = record(found.trace);
    const each = list(found.observations).map((one) => {
      const { project_id: _project, created_at: _at, updated_at: _then, ...rest } = record(one);
      const { source: _kind, event_version: _version, ...observation } = rest;
      return observation;
    });
    return { trace, observations: each };
  }
}

async function runSend(t: Test, ...args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [daemonEntry(), 'send', 'otlp', ...args, '--json'], {
    ...{ env: { ...process.env, ...PLAIN }, stdio: ['ignore', 'pipe', 'pipe'] },
  });
  const [out, err, [status]] = await Promise.all([
    child.stdout.toArray(),
    child.stderr.toArray(),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  t.equal(status, 0, Buffer.concat(err).toString());
  return Buffer.concat(out).toString();
}

const spansOf = (line: string): readonly unknown[] =>
  list(record(JSON.parse(line)).resourceSpans)
    .flatMap((resource) => list(record(resource).scopeSpans))
    .flatMap((scope) => list(record(scope).spans));

t.test('an export as OTLP makes the same traces in another project', async (t) => {
  const daemon = await startDaemon(t);
  const traceIds = await sendAll(daemon);
  const before = new Map<string, Awaited<ReturnType<typeof contentOf>>>();
  for (const id of traceIds) {
    const least = id.length === 32 ? 70 : 1;
    before.set(id, await contentOf(daemon, daemon.key, id, least));
  }
  t.equal(before.get(ids[0] ?? '')?.observations.length, 72);
  const rows = [...before.values()].reduce((sum, { observations: all }) => sum + all.length, 0);

  const output = join(daemon.directory, 'spans.jsonl');
  const exported = await daemon.cli('export', '--format', 'otlp', '--output', output);
  t.equal(exported.code, 0, exported.stderr);
  const text = readFileSync(output, 'utf8');
  const manifest = record(JSON.parse(readFileSync(`${output}.manifest.json`, 'utf8')));
  t.match(manifest, {
    ...{ rows, bytes: Buffer.byteLength(text), complete: true, payloads: true },
    ...{ format: 'otlp', of: 'observations' },
    sha256: createHash('sha256').update(text).digest('hex'),
  });
  const lines = text.trimEnd().split('\n');
  t.ok(lines.length > 3 && lines.length < 20, `${lines.length} lines`);
  t.ok(Math.max(...lines.map((line) => line.length)) < 2_500_000, 'lines are bounded');
  const spans = lines.flatMap(spansOf).length;
  t.equal(spans, rows + 2, 'a span that came in two parts, or with a native event, is two spans');

  await t.test('over HTTP, whole and in parts', async (t) => {
    const get = (query: string) => daemon.call({ path: `/api/v1/export?format=otlp${query}` });
    const whole = await get('');
    t.equal(whole.headers['content-type'], 'application/x-ndjson');
    t.equal(whole.headers['content-disposition'], 'attachment; filename="observations.otlp.jsonl"');
    t.equal(whole.body.toString(), text);
    const one = await get(`&q=${encodeURIComponent('id:"native only"')}&limit=1`);
    t.equal(spansOf(one.body.toString()).length, 1);
    for (const wrong of ['&of=traces', '&payloads=text', '&payloads=false', '&fields=id']) {
      t.equal((await get(wrong)).status, 400, wrong);
    }
  });

  for (const args of [[], ['--encoding', 'json', '--concurrency', '1'], ['--max-spans', '10']]) {
    const name = randomUUID();
    t.equal((await daemon.cli('projects', 'create', name, '--json')).code, 0);
    const key = (await daemon.cli('keys', 'create', '--project', name)).stdout.trim();
    const common = ['--file', output, '--endpoint', daemon.base, '--key', key];
    await runSend(t, ...common, ...args);
    for (const [id, content] of before) {
      const after = await contentOf(daemon, key, id, content.observations.length);
      t.same(after, content, `${id} ${args.join(' ')}`);
    }
    // A second way out gives the same spans: nothing changes on the way in.
    const again = join(daemon.directory, `${name}.jsonl`);
    const { code } = await daemon.cli(
      ...['export', '--project', name, '--format', 'otlp', '--output', again],
    );
    t.equal(code, 0);
    // In the copy all fields of the observation of both are from the span behind it, which was made of it.
    const ofBoth = JSON.stringify({ traceId: ids[1], spanId: span('', 1).spanId, name: 'step 1' });
    const sorted = (all: readonly string[]) =>
      all
        .flatMap(spansOf)
        .map((one) => JSON.stringify(one))
        .filter((one) => !one.startsWith(ofBoth.slice(0, -1)))
        .sort();
    const out = readFileSync(again, 'utf8').trimEnd().split('\n');
    if (args.includes('json')) t.same(sorted(out), sorted(lines), 'the same spans');
  }
});
