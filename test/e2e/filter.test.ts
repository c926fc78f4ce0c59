import { gzipSync } from 'node:zlib';
import t from 'tap';
import { encodeRequest } from '../helper/otlp-proto.ts';
import { eventually, json as parsed } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';

t.setTimeout(120_000);

/** A tree of spans: root ─▶ http (dropped) ─▶ redis (dropped) ─▶ llm. Sent in each format, gzip or not. */
const TREE = [
  { id: '1', parent: undefined, name: 'root', kind: 'agent' },
  { id: '2', parent: '1', name: 'POST /v1/chat', kind: 'span' },
  { id: '3', parent: '2', name: 'redis GET', kind: 'span' },
  { id: '4', parent: '3', name: 'model call', kind: 'llm' },
];

type Request = { readonly path: string; readonly type: string; readonly body: Buffer };

const START = '2026-01-15T11:59:58.000Z';

function nativeRequest(trace: string): Request {
  const events = TREE.map(({ id, parent, name, kind }) => ({
    ...{ id: `${trace}-${id}`, trace_id: trace, operation: 'finish', status: 'success' },
    ...{ name, kind, start_time: START, end_time: START },
    ...(parent === undefined ? {} : { parent_id: `${trace}-${parent}` }),
  }));
  return json('/api/v1/observations/batch', { events });
}

function runsRequest(trace: string): Request {
  const types: Readonly<Record<string, string>> = { agent: 'chain', span: 'span', llm: 'llm' };
  const post = TREE.map(({ id, parent, name, kind }) => ({
    ...{ id: `${trace}-${id}`, trace_id: trace, name, run_type: types[kind], start_time: START },
    ...(parent === undefined ? {} : { parent_run_id: `${trace}-${parent}` }),
  }));
  return json('/api/v1/runs/batch', { post, patch: [] });
}

function otlpSpans(trace: string) {
  const operations: Readonly<Record<string, string>> = { agent: 'invoke_agent', llm: 'chat' };
  const spans = TREE.map(({ id, parent, name, kind }) => ({
    ...{ traceId: trace, spanId: id.padStart(16, '0'), name },
    ...{ startTimeUnixNano: '1768478398000000000', endTimeUnixNano: '1768478399000000000' },
    ...(parent === undefined ? {} : { parentSpanId: parent.padStart(16, '0') }),
    attributes:
      operations[kind] === undefined
        ? []
        : [{ key: 'gen_ai.operation.name', value: { stringValue: operations[kind] } }],
  }));
  return { resourceSpans: [{ scopeSpans: [{ spans }] }] };
}

const OTLP_PATH = '/api/public/otel/v1/traces';

function json(path: string, body: unknown): Request {
  return { path, type: 'application/json', body: Buffer.from(JSON.stringify(body)) };
}

const REQUESTS: readonly { name: string; request: Request; trace: string }[] = [
  { name: 'native', trace: 'native', request: nativeRequest('native') },
  { name: 'runs', trace: 'runs', request: runsRequest('runs') },
  {
    name: 'OTLP JSON',
    trace: 'a'.repeat(32),
    request: json(OTLP_PATH, otlpSpans('a'.repeat(32))),
  },
  {
    name: 'OTLP protobuf',
    trace: 'b'.repeat(32),
    request: {
      path: OTLP_PATH,
      type: 'application/x-protobuf',
      body: encodeRequest(otlpSpans('b'.repeat(32))),
    },
  },
];

async function send(daemon: Daemon, { path, type, body }: Request, isCompressed: boolean) {
  return daemon.call({
    method: 'POST',
    path,
    headers: {
      'content-type': type,
      ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
    },
    body: isCompressed ? gzipSync(body) : body,
  });
}

t.test('drops spans between LLM observations and keeps the tree, in every format', async (t) => {
  const daemon = await startDaemon(t, {
    edit: (config) => {
      const { processors, service } = config as Record<string, Record<string, unknown>>;
      Object.assign(processors ?? {}, { filter: { preset: 'llm_only' } });
      const pipelines = service?.['pipelines'] as Record<string, { processors: string[] }>;
      pipelines['traces/accept']?.processors.splice(3, 0, 'filter');
    },
  });
  for (const [i, { name, request, trace }] of REQUESTS.entries()) {
    await t.test(name, async (t) => {
      const answer = await send(daemon, request, i % 2 === 1);
      t.ok(answer.status === 200 || answer.status === 202, `answered ${answer.status}`);
      const read = await eventually(
        () => daemon.call({ path: `/api/v1/traces/${trace}` }),
        (found) => (parsed(found) as { observations?: Seen[] }).observations?.length === 2,
        'the trace',
      );
      const { observations } = parsed(read) as { observations: Seen[] };
      const root = observations.find((each) => each.name === 'root');
      const call = observations.find((each) => each.name === 'model call');
      t.equal(call?.parent_id, root?.id, 'attached to the nearest kept ancestor');
      const { parent_span_id: spanId, parent_id: id } = call?.external ?? {};
      t.match(spanId ?? id, /3$/, 'the original parent id');
    });
  }
  const metrics = await daemon.metrics();
  const dropped = metrics.filter(
    (sample) =>
      sample.name === 'tracectl_processor_dropped_items_total' &&
      sample.labels['reason'] === 'filtered',
  );
  t.equal(dropped[0]?.value, 8, 'two spans of each request');
});

type Seen = {
  readonly id: string;
  readonly name: string;
  readonly parent_id: string | null;
  readonly external: Readonly<Record<string, string>> | null;
};
