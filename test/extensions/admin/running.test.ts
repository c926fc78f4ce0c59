import t from 'tap';
import type { FlowNode } from '../../../src/component/flow.ts';
import type { PipelineReport } from '../../../src/control/pipelines.ts';
import { quantile, shownPipelines } from '../../../src/control/pipelines.ts';
import type { ControlHandler } from '../../../src/control/server.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { QueueAdmin } from '../../../src/queue/queue.ts';
import { serving, testControl } from './serving.ts';

const AT = Date.UTC(2026, 10, 20, 21, 30);
const NO_CODES = { rejected: {}, refused: {}, dropped: {}, failed: {} };

const RECEIVER: FlowNode = {
  ...{ key: 'receiver:otlp', kind: 'receiver', id: 'otlp', type: 'otlp', pipeline: 'traces' },
  counts: { requests: 5, failed_requests: 1, items_out: 40 },
  codes: { ...NO_CODES, rejected: { invalid_span: 2 }, refused: { unauthorized: 3 } },
  durations: { count: 4, sum: 2, bounds: [0.1, 1], buckets: [2, 1, 1] },
};
const CONNECTOR: FlowNode = {
  ...{ key: 'connector:disk_queue', kind: 'connector', id: 'disk_queue', type: 'disk_queue' },
  ...{ pipeline: null, counts: { items_in: 40, items_out: 30 }, codes: NO_CODES },
};
const EDGES = [{ from: RECEIVER.key, to: CONNECTOR.key, pipeline: 'traces' }];

function aReport({ isShared = false } = {}): PipelineReport {
  return {
    flow: { since: AT, nodes: [RECEIVER, CONNECTOR], edges: EDGES },
    queues: {
      disk_queue: {
        branches: [{ branch: 'sqlite', entries: 3, leased: 1, items: 10, oldestAt: AT - 1000 }],
        ...{ deadLetters: 1, deadLetterItems: 7, bytes: 100, maxBytes: 1000, quarantined: 0 },
        isShared,
      },
    },
    health: [{ id: 'disk_queue', healthy: true, details: { entries: 3 } }],
  };
}

type Shown = { nodes: Record<string, unknown>[]; since: string; processes: number };
const shown = (...processes: PipelineReport[]): Shown =>
  shownPipelines({ processes }, AT + 60_000) as Shown;

t.test('pipelines are a graph with counters, latency, queues and health', async (t) => {
  const { ask } = await serving(t, {
    control: testControl({ flow: { since: AT, nodes: [RECEIVER, CONNECTOR], edges: EDGES } }),
  });
  const answer = await ask('GET', '/api/v1/pipelines');
  t.equal(answer.status, 200);
  const { nodes, edges, processes } = answer.json;
  t.equal(processes, 1);
  t.strictSame(edges, EDGES);
  t.match(nodes[0], {
    id: 'receiver:otlp',
    name: 'otlp',
    counters: { requests: 5, failed_requests: 1, items_out: 40, items_rejected: 2 },
    codes: { refused: { unauthorized: 3 } },
    latency: { count: 4, sum_seconds: 2, p50_seconds: 0.1, p95_seconds: 1 },
    queue: null,
  });
  t.match(nodes[1], { queue: { dead_letters: 0, bytes: null }, latency: null });
});

t.test('the numbers of workers add up, and a shared queue counts once', async (t) => {
  const two = shown(aReport(), aReport());
  t.equal(two.processes, 2);
  t.match(two.nodes[0], { counters: { requests: 10 }, latency: { count: 8, buckets: [4, 2, 2] } });
  t.match(two.nodes[1], {
    counters: { items_in: 80 },
    queue: {
      ...{ entries: 6, leased: 2, items: 20, bytes: 200, max_bytes: 2000, dead_letters: 2 },
      ...{ oldest_at: new Date(AT - 1000).toISOString() },
    },
    health: { ready: true, healthy: true },
  });
  const shared = shown(aReport({ isShared: true }), aReport({ isShared: true }));
  t.match(shared.nodes[1], { queue: { entries: 3, dead_letters: 1, dead_letter_items: 7 } });
  const restarted = { ...aReport(), flow: { ...aReport().flow, since: AT + 5 } };
  t.equal(shown(aReport(), restarted).since, new Date(AT + 5).toISOString());
});

t.test('a sick worker makes the health of its component bad', async (t) => {
  const health = [{ id: 'disk_queue', ready: false, healthy: false, message: 'The disk is full.' }];
  const { nodes } = shown(aReport(), { ...aReport(), health });
  t.match(nodes[1], { health: { ready: false, healthy: false, message: 'The disk is full.' } });
});

t.test('a quantile lies in the bucket that its rank falls into', async (t) => {
  const bounds = [1, 2, 4];
  t.equal(quantile(0.5, bounds, [0, 0, 0, 0]), null);
  t.equal(quantile(0.5, bounds, [2, 0, 0, 0]), 0.5);
  t.equal(quantile(0.5, bounds, [1, 1, 0, 0]), 1);
  t.equal(quantile(0.75, bounds, [1, 1, 0, 0]), 1.5);
  t.equal(quantile(0.95, bounds, [0, 0, 10, 0]), 3.9);
  t.equal(quantile(0.95, bounds, [0, 0, 0, 5]), 4, 'above all bounds it is the last one');
});

t.test('the endpoints have a name that the browser can reach', async (t) => {
  const { ask, url } = await serving(t, { config: { allowed_hosts: ['tracectl.test'] } });
  const { json } = await ask('GET', '/api/v1/service');
  t.match(json, { version: '1.2.3', store: 'sqlite', up_since: new Date(AT).toISOString() });
  const host = new URL(url).hostname;
  t.strictSame(json.endpoints, [{ url: `http://${host}:4318`, routes: ['POST /v1/traces'] }]);
});

t.test('dead letters are replayed and dropped, and the audit log says by whom', async (t) => {
  const { ask, store } = await serving(t);
  const listed = await ask('GET', '/api/v1/dead-letters?queue=disk_queue&limit=10&after=3');
  t.strictSame(listed.json, { dead_letters: [] });
  for (const query of ['?limit=0', '?limit=1001', '?after=-1', '?after=x', '?queue=']) {
    t.equal((await ask('GET', `/api/v1/dead-letters${query}`)).status, 400, query);
  }
  const replay = '/api/v1/dead-letters/replay';
  const one = await ask('POST', replay, { body: { queue: 'disk_queue', ids: [4, 5] } });
  t.strictSame(one.json, { replayed: 2 });
  const all = await ask('POST', '/api/v1/dead-letters/drop', { body: { ids: 'all' } });
  t.strictSame(all.json, { dropped: 3 });
  t.match(store.entries, [
    {
      ...{ actor: 'admin-token', action: 'dead_letters.replay', subject: 'disk_queue' },
      details: { ids: '4,5', count: 2 },
    },
    { action: 'dead_letters.drop', subject: 'queues', details: { ids: 'all' } },
  ]);
  const form = 'body.ids must be "all", or a list of 1 to 1000 ids, which are whole numbers.';
  for (const [body, message] of [
    [{ ids: [] }, 'body.ids must be at least 1 long.'],
    [{ ids: [-1] }, 'body.ids.0 must be at least 0.'],
    [{ ids: 'some' }, form],
    [{ ids: [1.5] }, form],
    [{ ids: ['1'] }, form],
    [{}, 'body.ids is required.'],
  ] as const) {
    const { status, json } = await ask('POST', replay, { body });
    t.match({ status, message: json.message }, { status: 400, message }, JSON.stringify(body));
  }
  const unknown = await ask('POST', replay, { body: { queue: 'ws_none', ids: [1] } });
  t.match(unknown, { status: 404, json: { code: 'not_found' } });
  t.notMatch(unknown.text, 'ws_none');
  t.equal(store.entries.length, 2, 'a refused request leaves no entry');
});

t.test(
  'a change of dead letters without a queue among several leaves no audit entry',
  async (t) => {
    const queue = {} as QueueAdmin;
    const queues = new Map([
      ['a', queue],
      ['b', queue],
    ]);
    const { ask, store } = await serving(t, { control: testControl({ queues }) });
    for (const ids of ['all', [1, 2]]) {
      for (const verb of ['replay', 'drop']) {
        const { status } = await ask('POST', `/api/v1/dead-letters/${verb}`, { body: { ids } });
        t.equal(status, 404);
      }
    }
    t.same(store.entries, []);
  },
);

t.test('no dead letter is replayed or dropped that the audit log cannot record', async (t) => {
  const commands: unknown[] = [];
  const control: ControlHandler = async (request) => {
    commands.push(request.command);
    return testControl()(request);
  };
  const { ask, store } = await serving(t, { control });
  store.fail(new RetryableError('storage_failed', 'away'));
  for (const verb of ['replay', 'drop']) {
    const path = `/api/v1/dead-letters/${verb}`;
    const { status } = await ask('POST', path, { body: { queue: 'disk_queue', ids: 'all' } });
    t.equal(status, 503);
  }
  t.same(commands, ['dead_letters.check', 'dead_letters.check']);
});
