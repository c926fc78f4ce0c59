import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { Metadata } from '@grpc/grpc-js';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import t, { type Test } from 'tap';
import { otlpProtoBody } from '../helper/batches.ts';
import { freePorts } from '../helper/free-ports.ts';
import { bareClient, framed, GZIP, grpcClient } from '../helper/grpc.ts';
import { eventually, json, list, record } from './client.ts';
import { type Daemon, startDaemon, type Tree } from './daemon.ts';

t.setTimeout(60_000);

type Options = NonNullable<ConstructorParameters<typeof OTLPTraceExporter>[0]>;

async function startWithGrpc(t: Test): Promise<{ daemon: Daemon; url: string }> {
  const [port] = await freePorts(1);
  const endpoint = `127.0.0.1:${port}`;
  const config = { receivers: { otlp: { protocols: { grpc: { endpoint } } } } };
  return { daemon: await startDaemon(t, { config }), url: `http://${endpoint}` };
}

t.test('receives traces over gRPC and HTTP', async (t) => {
  const { daemon, url } = await startWithGrpc(t);
  t.match(
    daemon.stdout(),
    `  ${url}\n    gRPC opentelemetry.proto.collector.trace.v1.TraceService/Export`,
  );
  const gzip = { compression: 'gzip' as NonNullable<Options['compression']> };
  for (const [name, options] of [
    ['plain', {}],
    ['gzip', gzip],
  ] as const) {
    await t.test(`the SDK's exporter sends a trace that reads back whole: ${name}`, (t) =>
      sdkTrace(t, daemon, { url, ...options }),
    );
  }
  await t.test('checks the key first', (t) => keys(t, daemon, url));
  await t.test('accepts 1,000 spans, and refuses a request of 1,001', (t) =>
    spanLimit(t, daemon, url),
  );
  await t.test('keeps serving after invalid traffic on the port', (t) => storm(t, daemon, url));
  await t.test('a reload replaces the receiver and refuses no call', (t) => reload(t, daemon, url));
  await t.test('stops gracefully with open connections', async (t) => {
    const client = grpcClient(t, url);
    t.equal((await client.call(Buffer.alloc(0), withKey(daemon))).code, 0);
    t.strictSame(await daemon.end('SIGTERM'), { code: 0, signal: null });
  });
});

function withKey(daemon: Daemon): { metadata: Record<string, string> } {
  return { metadata: { authorization: `Bearer ${daemon.key}` } };
}

function spans(count: number, traceId = randomBytes(16).toString('hex')) {
  return Array.from({ length: count }, (_, i) => ({
    traceId,
    spanId: (i + 1).toString(16).padStart(16, '0'),
  }));
}

/** Waits until a trace has this many observations, and returns them. */
async function readBack(daemon: Daemon, traceId: string, count: number) {
  const answer = await eventually(
    () => daemon.call({ path: `/api/v1/traces/${traceId}?payloads=true` }),
    (seen) => seen.status === 200 && list(record(json(seen)).observations).length === count,
    `trace ${traceId} with ${count} observations`,
  );
  return list(record(json(answer)).observations).map(record);
}

async function sdkTrace(t: Test, daemon: Daemon, options: Options): Promise<void> {
  const metadata = new Metadata();
  metadata.set('x-api-key', daemon.key);
  const exporter = new OTLPTraceExporter({ ...options, metadata });
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'shop' }),
    spanProcessors: [new BatchSpanProcessor({ exporter })],
  });
  const tracer = provider.getTracer('e2e');
  const chat = tracer.startSpan('chat small-1', {
    attributes: { 'gen_ai.operation.name': 'chat', 'gen_ai.usage.input_tokens': 12, input: 'hi' },
  });
  chat.end();
  const traceId = chat.spanContext().traceId;
  for (let i = 0; i < 20; i++) tracer.startSpan(`other ${i}`, { root: true }).end();
  await provider.forceFlush();
  await provider.shutdown();
  const [found] = await readBack(daemon, traceId, 1);
  t.match(found, { name: 'chat small-1', inputs: 'hi', usage: { input_tokens: 12 } });
}

async function keys(t: Test, daemon: Daemon, url: string): Promise<void> {
  const client = grpcClient(t, url);
  const body = otlpProtoBody(spans(1));
  const ask = async (metadata: Record<string, string>) =>
    (await client.call(body, { metadata })).code;
  const reader = await daemon.createKey('--permission', 'traces:read');
  t.equal(await ask({}), 16, 'none');
  t.equal(await ask({ authorization: 'Bearer ws_wrong' }), 16, 'a wrong one');
  t.equal(await ask({ 'x-api-key': reader.token }), 7, 'one that may only read');
  t.equal(await ask({ 'x-api-key': daemon.key }), 0);
  t.equal(await ask({ authorization: `Bearer ${daemon.key}`, 'x-api-key': daemon.key }), 0);
  for (const [name, value] of [
    ['authorization', `Bearer ${daemon.key}`],
    ['x-api-key', daemon.key],
  ] as const) {
    const call = bareClient(t, url).call([name, value, name, value]);
    call.stream.end(framed(body));
    t.match(await call.end, { 'grpc-status': '16' }, `${name} twice`);
  }
}

async function spanLimit(t: Test, daemon: Daemon, url: string): Promise<void> {
  const client = grpcClient(t, url, GZIP);
  const traceId = randomBytes(16).toString('hex');
  t.equal((await client.call(otlpProtoBody(spans(1000, traceId)), withKey(daemon))).code, 0);
  t.equal((await client.call(otlpProtoBody(spans(1001)), withKey(daemon))).code, 3);
  await readBack(daemon, traceId, 1000);
  const refused = await eventually(
    () => daemon.cli('rejections', 'list'),
    ({ stdout }) => stdout.includes('too_many_events'),
    'the refusal in the log of rejections',
  );
  t.match(refused.stdout, 'TraceService/Export');
}

async function storm(t: Test, daemon: Daemon, url: string): Promise<void> {
  const { port } = new URL(url);
  const speak = (bytes: Buffer): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(Number(port), '127.0.0.1', () => socket.end(bytes));
      socket.on('error', () => {}).on('close', () => resolve());
      socket.resume();
    });
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  const pieces = Array.from({ length: 200 }, (_, i) =>
    Buffer.concat([...(i % 3 === 0 ? [] : [preface, settings]), randomBytes(i * 7)]),
  );
  await Promise.all(pieces.map(speak));
  await speak(Buffer.from('POST /v1/traces HTTP/1.1\r\nhost: x\r\n\r\n'));
  const bare = bareClient(t, url);
  const calls = Array.from({ length: 60 }, (_, i) => {
    const call = bare.call(['x-api-key', daemon.key, 'grpc-encoding', 'gzip']);
    call.stream.write(framed(randomBytes(i * 10), i % 2));
    if (i % 4 === 0) call.stream.close(8);
    else call.stream.end();
    return call.end;
  });
  await Promise.all(calls);
  t.ok(daemon.running());
  t.equal((await grpcClient(t, url).call(otlpProtoBody(spans(1)), withKey(daemon))).code, 0);
  t.notMatch(daemon.stderr(), /"level":"?error/i);
}

async function reload(t: Test, daemon: Daemon, url: string): Promise<void> {
  const client = grpcClient(t, url, { 'grpc.enable_retries': 1 });
  const codes = new Set<number>();
  let isOver = false;
  const calling = [1, 2, 3].map(async () => {
    while (!isOver) codes.add((await client.call(otlpProtoBody(spans(2)), withKey(daemon))).code);
  });
  const config = JSON.parse(readFileSync(daemon.configPath, 'utf8')) as Tree;
  for (const limit of [500, 2]) {
    const { protocols } = record(record(config.receivers).otlp);
    record(record(protocols).grpc).max_spans_per_request = limit;
    writeFileSync(daemon.configPath, JSON.stringify(config));
    t.match(await daemon.cli('reload'), { code: 0 });
    const over = await client.call(otlpProtoBody(spans(limit + 1)), withKey(daemon));
    t.equal(over.code, 3, `${limit} is the limit now`);
  }
  isOver = true;
  await Promise.all(calling);
  t.strictSame([...codes], [0]);
}
