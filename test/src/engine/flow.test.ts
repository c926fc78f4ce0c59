import t from 'tap';
import type { Factory } from '../../../src/component/factory.ts';
import { flowOf } from '../../../src/engine/flow.ts';
import type { Graph, Node } from '../../../src/engine/graph.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';
import { fakeClock } from '../../helper/clock.ts';

const T0 = Date.UTC(2026, 0, 15);

function node(kind: Node['kind'], id: string, key = `${kind}:${id}`) {
  const factory = { kind, type: id.split('/')[0] } as unknown as Factory;
  return { key, kind, declared: { id, factory, config: {} } };
}

/** otlp ─▶ auth ─▶ disk_queue ─▶ sqlite, file */
function aGraph(): Graph {
  const receiver = { ...node('receiver', 'otlp'), pipelineId: 'accept' };
  const auth = { ...node('processor', 'auth', 'processor:accept:auth'), pipelineId: 'accept' };
  const queue = { ...node('connector', 'disk_queue'), pipelineIds: ['store'] };
  const [sqlite, file] = [node('exporter', 'sqlite'), node('exporter', 'file/raw')];
  return {
    ...{ extensions: [], receivers: [receiver], processors: [auth], connectors: [queue] },
    exporters: [sqlite, file],
    pipelines: new Map([
      ['accept', { id: 'accept', processors: [auth], exporters: [queue] }],
      ['store', { id: 'store', processors: [], exporters: [sqlite, file] }],
    ]),
  } as unknown as Graph;
}

t.test('the edges lead from receivers through processors and queues to exporters', async (t) => {
  const metrics = createMetrics(fakeClock(T0));
  const { edges, nodes, since } = flowOf(aGraph(), metrics, T0);
  t.equal(since, T0);
  t.strictSame(
    nodes.map(({ key, type, pipeline }) => [key, type, pipeline]),
    [
      ['receiver:otlp', 'otlp', 'accept'],
      ['processor:accept:auth', 'auth', 'accept'],
      ['connector:disk_queue', 'disk_queue', null],
      ['exporter:sqlite', 'sqlite', null],
      ['exporter:file/raw', 'file', null],
    ],
  );
  t.strictSame(edges, [
    { from: 'receiver:otlp', to: 'processor:accept:auth', pipeline: 'accept' },
    { from: 'processor:accept:auth', to: 'connector:disk_queue', pipeline: 'accept' },
    { from: 'connector:disk_queue', to: 'exporter:sqlite', pipeline: 'store' },
    { from: 'connector:disk_queue', to: 'exporter:file/raw', pipeline: 'store' },
  ]);
});

t.test('a node has the counters of its own labels, divided by code', async (t) => {
  const metrics = createMetrics(fakeClock(T0));
  const count = (name: string, value: number, labels: Record<string, string>) =>
    metrics.counter(name, 'x').add(value, labels);
  const otlp = { receiver: 'otlp', pipeline: 'accept' };
  count('tracectl_receiver_requests_total', 7, { ...otlp, outcome: 'accepted' });
  count('tracectl_receiver_requests_total', 2, { ...otlp, outcome: 'failed' });
  count('tracectl_receiver_requests_total', 50, { ...otlp, receiver: 'otlp/2', outcome: 'failed' });
  count('tracectl_receiver_rejected_items_total', 3, { ...otlp, code: 'invalid_span' });
  const [a, b] = [{ exporter: 'sqlite', pipeline: 'store', kind: 'exporter' }, { pipeline: 'p2' }];
  count('tracectl_exporter_sent_items_total', 4, a);
  count('tracectl_exporter_sent_items_total', 6, { ...a, ...b });
  count('tracectl_exporter_sent_items_total', 90, { ...a, kind: 'connector' });
  count('tracectl_exporter_send_failed_items_total', 5, { ...a, code: 'storage_failed' });
  const took = metrics.histogram('tracectl_exporter_send_duration_seconds', 'x');
  for (const seconds of [0.001, 0.002, 61]) took.record(seconds, a);
  took.record(0.001, { ...a, ...b });

  const { nodes } = flowOf(aGraph(), metrics, T0);
  const [receiver, , , sqlite, file] = nodes;
  t.match(receiver, {
    counts: { requests: 9, failed_requests: 2 },
    codes: { rejected: { invalid_span: 3 }, failed: {} },
  });
  t.match(sqlite, { counts: { items_out: 10 }, codes: { failed: { storage_failed: 5 } } });
  const { durations } = sqlite ?? {};
  t.equal(durations?.count, 4);
  t.strictSame(
    [durations?.buckets[0], durations?.buckets[1], durations?.buckets.at(-1)],
    [2, 1, 1],
  );
  t.equal(durations?.buckets.length, (durations?.bounds.length ?? 0) + 1);
  t.match(file, { counts: { items_out: 0, retries: 0 } });
  t.equal(file?.durations, undefined, 'nothing was delivered yet');
});
