import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { otlpProtoBody } from '../helper/batches.ts';
import { freePorts } from '../helper/free-ports.ts';
import { grpcClient } from '../helper/grpc.ts';
import type { OtlpServer } from '../helper/otlp-server.ts';
import { ACCEPTED, startOtlpServer } from '../helper/otlp-server.ts';
import { type Answer, eventually } from './client.ts';
import type { Daemon, Tree } from './daemon.ts';
import { prepareDaemon, total } from './daemon.ts';
import { replaceConfig, shippedConfig, treeAt } from './shipped.ts';

/** Runs config/hop.yaml as a process, in front of a scripted collector. */

t.setTimeout(300_000);

const KEY = 'key-of-the-upstream-collector';

type Hop = { readonly hop: Daemon; readonly next: OtlpServer; readonly grpc: string };

async function start(t: Test, edit: (config: Tree) => void = () => {}): Promise<Hop> {
  const next = await startOtlpServer(t);
  const [port] = await freePorts(1);
  const grpc = `127.0.0.1:${port}`;
  const hop = await prepareDaemon({
    env: { UPSTREAM_KEY: KEY },
    edit(config) {
      const { endpoint } = treeAt(config, 'receivers', 'native');
      const health = { endpoint: treeAt(config, 'extensions', 'health_check').endpoint };
      const shipped = shippedConfig('hop.yaml');
      // In addition to the shipped components, so that the test sees the readiness.
      treeAt(shipped, 'extensions').health_check = health;
      treeAt(shipped, 'service').extensions = ['file_storage', 'health_check'];
      const protocols = treeAt(shipped, 'receivers', 'otlp', 'protocols');
      treeAt(protocols, 'http').endpoint = endpoint;
      treeAt(protocols, 'grpc').endpoint = grpc;
      const exporter = treeAt(shipped, 'exporters', 'otlphttp');
      exporter.endpoint = next.url;
      exporter.retry_on_failure = { initial_interval: '20ms', max_interval: '100ms' };
      edit(shipped);
      replaceConfig(config, shipped);
    },
  });
  t.teardown(() => hop.remove());
  await hop.start();
  return { hop, next, grpc: `http://${grpc}` };
}

function idsOf(i: number) {
  return {
    traceId: (i + 1).toString(16).padStart(32, '0'),
    spanId: (i + 1).toString(16).padStart(16, '0'),
  };
}

function post(hop: Daemon, body: Buffer, headers: Record<string, string> = {}): Promise<Answer> {
  return hop.call({
    method: 'POST',
    path: '/v1/traces',
    headers: {
      authorization: `Bearer ${KEY}`,
      'content-type': 'application/x-protobuf',
      ...headers,
    },
    body,
  });
}

t.test('forwards bytes unchanged, over HTTP and gRPC', async (t) => {
  const { hop, next, grpc } = await start(t);
  const plain = otlpProtoBody([idsOf(0)]);
  const packed = gzipSync(otlpProtoBody([idsOf(1)]), { level: 1 });
  const called = otlpProtoBody([idsOf(2)]);
  t.equal((await post(hop, plain)).status, 200);
  t.equal((await post(hop, packed, { 'content-encoding': 'gzip' })).status, 200);
  const metadata = { authorization: `Bearer ${KEY}` };
  t.equal((await grpcClient(t, grpc).call(called, { metadata })).code, 0);
  await next.received(3);
  const bodies = next.requests.map(({ body }) => body);
  t.ok(
    bodies.some((body) => body.equals(packed)),
    'compressed as it came',
  );
  const traces = next.requests.flatMap(({ spans }) => spans.map(({ traceId }) => traceId)).sort();
  t.same(
    traces,
    [0, 1, 2].map((i) => idsOf(i).traceId),
  );
  t.ok(next.requests.every(({ path }) => path === '/v1/traces'));
  t.notOk(
    next.requests.some(({ headers }) => 'x-api-key' in headers || 'authorization' in headers),
    'the key of one side is not shown to the other',
  );
  await eventually(
    async () => hop.stdout() + hop.stderr(),
    (text) => /proj_hop/.test(text) || /otlp_proto/.test(text),
    'a line of the debug exporter',
  );
});

t.test('accepts a batch of 8,192 spans, and refuses one more', async (t) => {
  const { hop, next } = await start(t);
  const spans = (count: number) => Array.from({ length: count }, (_, i) => idsOf(i));
  t.equal((await post(hop, otlpProtoBody(spans(10_000)))).status, 200);
  await next.received(1);
  t.equal(next.requests[0]?.spans.length, 10_000);
  t.equal((await post(hop, otlpProtoBody(spans(10_001)))).status, 413);
});

t.test('loses nothing when killed while the destination is unreachable', async (t) => {
  const { hop, next } = await start(t);
  next.always({ status: 503 });
  const acknowledged = new Set<string>();
  const sendOne = async (i: number): Promise<void> => {
    const answer = await post(hop, otlpProtoBody([idsOf(i)]));
    if (answer.status === 200) acknowledged.add(idsOf(i).traceId);
  };
  for (let i = 0; i < 100; i++) await sendOne(i);
  t.equal(acknowledged.size, 100, 'it answers while the next one refuses');
  const last = Promise.allSettled(Array.from({ length: 40 }, (_, i) => sendOne(100 + i)));
  await hop.end('SIGKILL');
  await last;
  const before = next.requests.length;
  next.always(ACCEPTED);
  await hop.start();
  await eventually(
    () => hop.metrics(),
    (found) => total(found, 'tracectl_queue_entries') === 0,
    'an empty queue',
    60_000,
  );
  const arrived = next.requests
    .slice(before)
    .flatMap(({ spans }) => spans.map(({ traceId }) => traceId));
  t.same(
    [...acknowledged].filter((id) => !arrived.includes(id)),
    [],
    'nothing is lost',
  );
  t.equal(new Set(arrived).size, arrived.length, 'nothing arrives twice');
});

t.test('usage is exact after a crash', async (t) => {
  const { hop } = await start(t, (config) => {
    treeAt(config, 'processors', 'quotas').monthly_events = 5;
  });
  for (let i = 0; i < 3; i++) t.equal((await post(hop, otlpProtoBody([idsOf(i)]))).status, 200);
  await hop.end('SIGKILL');
  await hop.start();
  const two = otlpProtoBody([idsOf(3), idsOf(4)]);
  t.equal((await post(hop, otlpProtoBody([idsOf(3), idsOf(4), idsOf(5)]))).status, 402);
  t.equal((await post(hop, two)).status, 200);
  t.equal((await post(hop, otlpProtoBody([idsOf(6)]))).status, 402);
});
