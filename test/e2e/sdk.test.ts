import { randomBytes } from 'node:crypto';
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtoExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';
import { Client } from 'langsmith/client';
import { RunTree } from 'langsmith/run_trees';
import { traceable } from 'langsmith/traceable';
import t, { type Test } from 'tap';
import { eventually, json, list, record } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';

t.setTimeout(60_000);

type ExporterOptions = NonNullable<ConstructorParameters<typeof ProtoExporter>[0]>;

t.test('OpenTelemetry and LangSmith SDKs send to the daemon', async (t) => {
  const daemon = await startDaemon(t);
  const gzip = { compression: 'gzip' as NonNullable<ExporterOptions['compression']> };
  const variants = [
    ['protobuf', ProtoExporter, {}],
    ['protobuf, gzip', ProtoExporter, gzip],
    ['JSON', JsonExporter, {}],
    ['JSON, gzip', JsonExporter, gzip],
  ] as const;
  for (const [name, Exporter, options] of variants) {
    await t.test(`an OpenTelemetry trace reads back complete: ${name}`, async (t) => {
      const url = `${daemon.base}/api/public/otel/v1/traces`;
      const headers = { authorization: `Bearer ${daemon.key}` };
      await exportAndCompare(t, daemon, new Exporter({ url, headers, ...options }));
    });
  }
  await t.test(
    'the exporter finds the endpoint with /v1/traces appended, and x-api-key',
    async (t) => {
      const url = `${daemon.base}/v1/traces`;
      const exporter = new ProtoExporter({ url, headers: { 'x-api-key': daemon.key } });
      await exportAndCompare(t, daemon, exporter);
    },
  );
  await t.test('a LangSmith client sends a tree of runs in batches', (t) => runTree(t, daemon));
  await t.test('a LangSmith client sends attachments', (t) => attachments(t, daemon));
  await t.test('a LangSmith client without batching posts and patches', (t) =>
    singleRuns(t, daemon),
  );
  await t.test('traceable functions appear as runs', (t) => traceableFunctions(t, daemon));
});

async function exportAndCompare(t: Test, daemon: Daemon, exporter: SpanExporter): Promise<void> {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'shop', 'deployment.environment': 'test' }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer('e2e', '1.2.3');
  const agent = tracer.startSpan('plan a trip', {
    attributes: { 'gen_ai.operation.name': 'invoke_agent', input: '{"city":"Köln"}' },
  });
  const inside = trace.setSpan(context.active(), agent);
  const chat = tracer.startSpan(
    'chat small-1',
    {
      kind: SpanKind.CLIENT,
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.request.model': 'small-1',
        'gen_ai.usage.input_tokens': 12,
        'gen_ai.usage.output_tokens': 34,
        'gen_ai.input.messages': '[{"role":"user","parts":[{"type":"text","content":"hi"}]}]',
        output: 'plain text\u0000 with a NUL',
        'session.id': 's-1',
        weights: [0.5, 1.25],
      },
    },
    inside,
  );
  chat.addEvent('first token', { after: 3 });
  chat.setStatus({ code: SpanStatusCode.OK });
  chat.end();
  const tool = tracer.startSpan(
    'lookup',
    { attributes: { 'openinference.span.kind': 'TOOL' } },
    inside,
  );
  tool.recordException(new TypeError('no such city'));
  tool.setStatus({ code: SpanStatusCode.ERROR, message: 'no such city' });
  tool.end();
  agent.end();
  await provider.forceFlush();
  await provider.shutdown();

  const traceId = agent.spanContext().traceId;
  const { observations, summary } = await wholeTrace(daemon, traceId, 3);
  t.equal(summary.name, 'plan a trip');
  t.equal(summary.observation_count, 3);
  const byName = new Map(observations.map((one) => [one.name, one]));
  const [a, c, l] = ['plan a trip', 'chat small-1', 'lookup'].map((n) => record(byName.get(n)));
  const idOf = (span: typeof agent) => `${traceId}:${span.spanContext().spanId}`;
  t.equal(a?.id, idOf(agent));
  t.equal(a?.parent_id, null);
  t.equal(a?.kind, 'agent');
  t.equal(a?.status, 'pending', 'a span without a status');
  t.equal(a?.ended, true);
  t.same(a?.inputs, { city: 'Köln' });
  t.equal(record(a?.metadata)['service.name'], 'shop');
  t.equal(c?.id, idOf(chat));
  t.equal(c?.parent_id, idOf(agent));
  t.equal(c?.status, 'success');
  t.equal(c?.model, 'small-1');
  t.match(c?.usage, { input_tokens: 12, output_tokens: 34 });
  t.equal(c?.outputs, 'plain text\u0000 with a NUL');
  t.same(record(c?.metadata).weights, [0.5, 1.25]);
  t.equal(list(c?.events).length, 1);
  t.equal(l?.parent_id, idOf(agent));
  t.equal(l?.kind, 'tool');
  t.equal(l?.status, 'error');
  t.match(l?.error, { message: 'no such city', type: 'TypeError', stacktrace: /TypeError/ });
}

async function runTree(t: Test, daemon: Daemon): Promise<void> {
  const client = langsmith(daemon, true);
  const root = new RunTree({
    name: 'answer',
    run_type: 'chain',
    inputs: { question: 'why?' },
    metadata: { custom_fields: { tenant: 'acme', n: 3 } },
    project_name: 'somewhere',
    tracingEnabled: true,
    client,
  });
  await root.postRun();
  const child = root.createChild({
    name: 'model',
    run_type: 'llm',
    inputs: { messages: [{ role: 'user', content: 'why?' }] },
    metadata: { ls_model_name: 'small-1', ls_provider: 'acme' },
  });
  await child.postRun();
  await child.end({
    content: 'because',
    usage_metadata: { input_tokens: 5, output_tokens: 7, total_tokens: 12 },
  });
  await child.patchRun();
  const failing = root.createChild({
    name: 'parse',
    run_type: 'parser',
    inputs: { text: 'because' },
  });
  await failing.postRun();
  await failing.end(undefined, 'cannot parse');
  await failing.patchRun();
  await root.end({ answer: 'because' });
  await root.patchRun();
  await client.awaitPendingTraceBatches();

  const { observations, summary } = await wholeTrace(daemon, String(root.trace_id), 3, (all) =>
    all.every((one) => one.ended === true),
  );
  t.equal(summary.name, 'answer');
  const byId = new Map(observations.map((one) => [one.id, one]));
  const r = record(byId.get(root.id));
  t.equal(r.kind, 'chain');
  t.equal(r.status, 'success');
  t.equal(r.parent_id, null);
  t.same(r.inputs, { question: 'why?' });
  t.same(r.outputs, { answer: 'because' });
  t.same(r.custom_fields, { tenant: 'acme', n: '3' });
  const m = record(byId.get(child.id));
  t.equal(m.kind, 'llm');
  t.equal(m.parent_id, root.id);
  t.equal(m.model, 'small-1');
  t.match(m.usage, { input_tokens: 5, output_tokens: 7 });
  const p = record(byId.get(failing.id));
  t.equal(p.kind, 'chain', 'a parser is a chain');
  t.equal(p.status, 'error');
  t.match(p.error, { message: 'cannot parse' });
}

async function attachments(t: Test, daemon: Daemon): Promise<void> {
  const client = langsmith(daemon, true);
  const [image, page] = [randomBytes(700_000), Buffer.from('<script>alert(1)</script>')];
  const run = new RunTree({
    ...{ name: 'look', run_type: 'chain', inputs: {}, project_name: 'somewhere' },
    attachments: { image: ['image/png', image], page: { mimeType: 'text/html', data: page } },
    ...{ tracingEnabled: true, client },
  });
  await run.postRun();
  await run.end({ seen: true });
  await run.patchRun();
  await client.awaitPendingTraceBatches();
  const { observations } = await wholeTrace(daemon, run.id, 1, ([one]) => one?.ended === true);
  const found = list(observations[0]?.attachments).map(record);
  t.match(found, [
    { name: 'image', mime_type: 'image/png', bytes: image.length },
    { name: 'page', mime_type: 'text/html', bytes: page.length },
  ]);
  for (const [one, content, type] of [
    [found[0], image, 'image/png'],
    [found[1], page, 'application/octet-stream'],
  ] as const) {
    const url = `${daemon.base}${one?.url}`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${daemon.key}` } });
    t.equal(answer.headers.get('content-type'), type);
    t.ok(Buffer.from(await answer.arrayBuffer()).equals(content));
    t.equal((await fetch(url)).status, 401);
  }
}

async function singleRuns(t: Test, daemon: Daemon): Promise<void> {
  const client = langsmith(daemon, false);
  const id = crypto.randomUUID();
  const common = { id, name: 'alone', run_type: 'tool', project_name: 'somewhere' };
  await client.createRun({ ...common, inputs: { x: 1 }, start_time: Date.now() });
  await client.updateRun(id, { outputs: { y: 2 }, end_time: Date.now() });
  await client.awaitPendingTraceBatches();
  const found = await eventually(
    () => daemon.call({ path: `/api/v1/observations/${id}` }),
    (answer) => answer.status === 200 && record(json(answer)).ended === true,
    'the finished run',
  );
  t.match(record(json(found)), {
    trace_id: id,
    kind: 'tool',
    status: 'success',
    inputs: { x: 1 },
    outputs: { y: 2 },
  });
}

async function traceableFunctions(t: Test, daemon: Daemon): Promise<void> {
  const client = langsmith(daemon, true);
  const options = { client, tracingEnabled: true, project_name: 'somewhere' };
  let traceId = '';
  const inner = traceable(async (n: number) => n * 2, {
    name: 'double',
    run_type: 'tool',
    ...options,
  });
  const outer = traceable(async (n: number) => inner(n), {
    name: 'outer',
    ...options,
    on_end: (run: RunTree) => {
      traceId = String(run.trace_id);
    },
  });
  t.equal(await outer(21), 42);
  await client.awaitPendingTraceBatches();
  const { observations } = await wholeTrace(daemon, traceId, 2, (all) =>
    all.every((one) => one.ended === true),
  );
  const [parent, child] = ['outer', 'double'].map((name) =>
    observations.find((one) => one.name === name),
  );
  t.equal(child?.parent_id, parent?.id);
  t.same(child?.outputs, { outputs: 42 });
}

function langsmith(daemon: Daemon, autoBatchTracing: boolean): Client {
  return new Client({ apiUrl: `${daemon.base}/api/v1`, apiKey: daemon.key, autoBatchTracing });
}

/** Waits until a trace has this many observations, and all satisfy the condition. */
async function wholeTrace(
  daemon: Daemon,
  traceId: string,
  count: number,
  wanted: (observations: Record<string, unknown>[]) => boolean = () => true,
): Promise<{ observations: Record<string, unknown>[]; summary: Record<string, unknown> }> {
  const answer = await eventually(
    () => daemon.call({ path: `/api/v1/traces/${traceId}?payloads=true` }),
    (seen) => {
      if (seen.status !== 200) return false;
      const all = list(record(json(seen)).observations).map(record);
      return all.length === count && wanted(all);
    },
    `trace ${traceId} with ${count} observations`,
  );
  const body = record(json(answer));
  return { observations: list(body.observations).map(record), summary: record(body.trace) };
}
