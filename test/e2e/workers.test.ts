import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { otlpProtoBody } from '../helper/batches.ts';
import { grpcClient } from '../helper/grpc.ts';
import type { OtlpServer } from '../helper/otlp-server.ts';
import { ACCEPTED, startOtlpServer } from '../helper/otlp-server.ts';
import { eventually, send } from './client.ts';
import { startCluster } from './cluster.ts';
import type { Daemon, Sample, Tree } from './daemon.ts';
import { prepareDaemon, total } from './daemon.ts';
import { replaceConfig, treeAt } from './shipped.ts';

/** A hop of several processes on one port, in front of a scripted collector. */

t.setTimeout(300_000);

type Hop = { readonly hop: Daemon; readonly next: OtlpServer };

async function prepare(t: Test, workers: number, edit: (config: Tree) => void = () => {}) {
  const next = await startOtlpServer(t);
  const hop = await prepareDaemon({
    edit(config) {
      const { endpoint } = treeAt(config, 'receivers', 'native');
      const health = { endpoint: treeAt(config, 'extensions', 'health_check').endpoint };
      const grpc = treeAt(config, 'extensions', 'admin').endpoint;
      const parts = hopOf(String(endpoint), next.url, workers);
      treeAt(parts, 'receivers', 'otlp', 'protocols').grpc = { endpoint: grpc };
      treeAt(parts, 'extensions').health_check = health;
      edit(parts);
      replaceConfig(config, parts);
    },
  });
  t.teardown(() => hop.remove());
  return { hop, next };
}

async function start(t: Test, workers: number, edit?: (config: Tree) => void): Promise<Hop> {
  const prepared = await prepare(t, workers, edit);
  await prepared.hop.start();
  return prepared;
}

function hopOf(endpoint: string, next: string, workers: number): Tree {
  return {
    extensions: { file_storage: { directory: './data', reserve_bytes: 0 } },
    receivers: { otlp: { project: 'p', protocols: { http: { endpoint } } } },
    exporters: {
      otlphttp: {
        endpoint: next,
        sending_queue: { storage: 'file_storage' },
        retry_on_failure: { initial_interval: '20ms', max_interval: '100ms' },
      },
    },
    service: {
      workers,
      extensions: ['file_storage', 'health_check'],
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlphttp'] } },
    },
  };
}

/** Changes the configuration file of a daemon, for its next start or reload. */
function rewrite({ configPath }: Daemon, edit: (config: Tree) => void): void {
  const config = JSON.parse(readFileSync(configPath, 'utf8')) as Tree;
  edit(config);
  writeFileSync(configPath, JSON.stringify(config));
}

function setWorkers(hop: Daemon, workers: number): void {
  rewrite(hop, (config) => {
    treeAt(config, 'service').workers = workers;
  });
}

let lastTrace = 0;
const SPAN = '00000000000000aa';

function nextTrace(): string {
  lastTrace++;
  return lastTrace.toString(16).padStart(32, '0');
}

/** Sends one span on its own connection. Returns its trace, or undefined if it was refused. */
async function sendOne(hop: Daemon): Promise<string | undefined> {
  const traceId = nextTrace();
  const agent = new Agent({ keepAlive: false });
  const answer = await send(hop.base, {
    method: 'POST',
    path: '/v1/traces',
    headers: { 'content-type': 'application/x-protobuf' },
    body: otlpProtoBody([{ traceId, spanId: SPAN }]),
    agent,
  }).catch(() => undefined);
  return answer?.status === 200 ? traceId : undefined;
}

async function sendMany(hop: Daemon, count: number): Promise<string[]> {
  const taken: string[] = [];
  for (let i = 0; i < count; i++) {
    const traceId = await sendOne(hop);
    if (traceId !== undefined) taken.push(traceId);
  }
  return taken;
}

/** The same over gRPC. */
async function callMany(t: Test, hop: Daemon, count: number): Promise<string[]> {
  const taken: string[] = [];
  for (let i = 0; i < count; i++) {
    const traceId = nextTrace();
    const client = grpcClient(t, hop.adminBase);
    const { code } = await client.call(otlpProtoBody([{ traceId, spanId: SPAN }]));
    client.close();
    if (code === 0) taken.push(traceId);
  }
  return taken;
}

let lastEvent = 0;

/** Sends one event on its own connection. Returns the status. */
async function sendEvent(base: string, key: string): Promise<number> {
  const id = `event-${++lastEvent}`;
  const event = { id, trace_id: id, operation: 'finish', kind: 'span', status: 'ok' };
  const { status } = await send(base, {
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events: [event] }),
    agent: new Agent({ keepAlive: false }),
  });
  return status;
}

/** Makes the collector accept everything. Returns the list of accepted traces, which grows. */
function acceptAll(next: OtlpServer): string[] {
  const taken: string[] = [];
  next.always(({ spans }) => {
    taken.push(...spans.flatMap(({ traceId }) => traceId ?? []));
    return ACCEPTED;
  });
  return taken;
}

/** Waits for these traces, and checks that none arrived twice and no other one arrived. */
async function delivered(t: Test, arrived: string[], wanted: readonly string[]): Promise<void> {
  await eventually(
    async () => arrived,
    (found) => wanted.every((id) => found.includes(id)),
    'everything that was acknowledged',
    60_000,
  );
  t.same([...arrived].sort(), [...wanted].sort(), 'each arrives once');
}

function acceptedBy(samples: readonly Sample[], worker: number): number {
  const labels = { worker: String(worker) };
  return total(samples, 'tracectl_receiver_accepted_items_total', labels);
}

type Part = { readonly id: string; readonly details?: { readonly pid?: number } };

async function pidOf(hop: Daemon, worker: number): Promise<number> {
  const { body } = await send(hop.health, { path: '/readyz?verbose' });
  const { components } = JSON.parse(body.toString('utf8')) as { components: Part[] };
  return components.find(({ id }) => id === `worker-${worker}`)?.details?.pid ?? 0;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits for the end of processes that are not children of this one: workers end with their supervisor. */
async function gone(pids: readonly number[]): Promise<void> {
  await eventually(
    async () => pids.filter(isAlive),
    (alive) => alive.length === 0,
    'the end of every worker',
    30_000,
  );
}

t.test('two workers share the connections and appear as one daemon', async (t) => {
  const { hop, next } = await start(t, 2);
  t.match(hop.stdout(), /is running with 2 workers/);
  t.match(hop.stdout(), 'POST /v1/traces');
  const arrived = acceptAll(next);
  const taken = await sendMany(hop, 60);
  t.equal(taken.length, 60);
  const called = await callMany(t, hop, 12);
  t.equal(called.length, 12, 'over gRPC too');
  await delivered(t, arrived, [...taken, ...called]);

  const samples = await hop.metrics();
  t.equal(acceptedBy(samples, 1) + acceptedBy(samples, 2), 72);
  t.ok(acceptedBy(samples, 1) > 0 && acceptedBy(samples, 2) > 0, 'both have work');
  t.same(
    samples.filter(({ name }) => name === 'tracectl_worker_up').map(({ value }) => value),
    [1, 1],
  );
  const page = (await send(hop.metricsBase, { path: '/metrics' })).body.toString('utf8');
  const types = page.split('\n').filter((line) => line.startsWith('# TYPE'));
  t.equal(new Set(types).size, types.length, 'each metric is described once');

  const { body } = await send(hop.health, { path: '/readyz?verbose' });
  const { components } = JSON.parse(body.toString('utf8')) as { components: Part[] };
  const ids = components.map(({ id }) => id);
  for (const id of ['worker-1', 'worker-2', 'worker-1/otlphttp', 'worker-2/otlphttp']) {
    t.ok(ids.includes(id), id);
  }
  const pids = [await pidOf(hop, 1), await pidOf(hop, 2)];
  t.equal(new Set([...pids, hop.pid()]).size, 3);
  t.same(await hop.end('SIGTERM'), { code: 0, signal: null });
  t.notOk(pids.some(isAlive), 'no process is left');
});

t.test('a killed worker is restarted and loses nothing', async (t) => {
  const { hop, next } = await start(t, 2);
  next.always({ status: 503 });
  const taken = await sendMany(hop, 40);
  t.equal(taken.length, 40, 'they answer while the next one refuses');
  const before = await hop.metrics();
  t.ok(acceptedBy(before, 1) > 0 && acceptedBy(before, 2) > 0, 'both hold something');

  const pid = await pidOf(hop, 1);
  writeFileSync(hop.configPath, 'a file under edit');
  process.kill(pid, 'SIGKILL');
  await eventually(
    async () => isAlive(pid),
    (alive) => !alive,
    'its end',
  );
  const meanwhile = await sendMany(hop, 10);
  t.equal(meanwhile.length, 10, 'the other one serves');
  t.equal((await send(hop.health, { path: '/livez' })).status, 200);

  const after = await eventually(
    () => hop.metrics(),
    (found) => total(found, 'tracectl_worker_up') === 2,
    'two workers',
    30_000,
  );
  t.equal(total(after, 'tracectl_worker_restarts_total', { worker: '1' }), 1);
  t.equal(total(after, 'tracectl_worker_restarts_total', { worker: '2' }), 0);
  t.not(await pidOf(hop, 1), pid);
  await delivered(t, acceptAll(next), [...taken, ...meanwhile]);
  await eventually(
    () => hop.metrics(),
    (found) => total(found, 'tracectl_queue_entries') === 0,
    'empty queues',
    30_000,
  );
});

t.test('another number of workers delivers the whole backlog', async (t) => {
  const { hop, next } = await start(t, 2);
  next.always({ status: 503 });
  const ofTwo = await sendMany(hop, 12);
  const pids = [await pidOf(hop, 1), await pidOf(hop, 2)];
  await hop.end('SIGKILL');
  await gone(pids);

  setWorkers(hop, 1);
  const arrived = acceptAll(next);
  await hop.start();
  await delivered(t, arrived, ofTwo);
  t.match(hop.stderr(), /taken over.*worker-1/);
  next.always({ status: 503 });
  const ofOne = await sendMany(hop, 12);
  await hop.end('SIGTERM');

  setWorkers(hop, 2);
  const arrivedThen = acceptAll(next);
  await hop.start();
  await delivered(t, arrivedThen, ofOne);
  t.same([ofTwo.length, ofOne.length], [12, 12]);
});

t.test('commands reach the workers', async (t) => {
  const { hop, next } = await start(t, 2);
  next.always({ status: 400 });
  const taken = await sendMany(hop, 30);
  const letters = await eventually(
    async () => JSON.parse((await hop.cli('dead-letter', 'list', '--json')).stdout) as Letters,
    ({ dead_letters }) => dead_letters.length === taken.length,
    'a dead letter for each',
    60_000,
  );
  const queues = new Set(letters.dead_letters.map(({ queue }) => queue));
  t.same([...queues].sort(), ['worker-1/otlphttp', 'worker-2/otlphttp']);
  const [first = { queue: '', id: 0 }] = letters.dead_letters;
  const one = await hop.cli('dead-letter', 'replay', String(first.id));
  t.not(one.code, 0);
  t.match(one.stderr, 'name one with --queue');
  next.always(ACCEPTED);
  const named = ['--queue', first.queue];
  t.match((await hop.cli('dead-letter', 'show', String(first.id), ...named)).stdout, /"batch_id"/);
  t.match(
    (await hop.cli('dead-letter', 'replay', String(first.id), ...named)).stdout,
    'Replayed 1.',
  );
  t.match((await hop.cli('dead-letter', 'replay', '--all')).stdout, 'Replayed 29.');
  t.match((await hop.cli('dead-letter', 'list', '--queue', 'worker-9/x')).stderr, 'no queue');

  rewrite(hop, (config) => {
    treeAt(config, 'receivers', 'otlp').project = 'other';
    treeAt(config, 'exporters').debug = {};
    treeAt(config, 'service', 'pipelines', 'traces').exporters = ['otlphttp', 'debug'];
  });
  t.match(await hop.cli('reload'), { code: 0, stdout: /Reloaded/ });
  await sendMany(hop, 30);
  const samples = await hop.metrics();
  for (const worker of ['1', '2']) {
    const sent = 'tracectl_exporter_sent_items_total';
    t.ok(total(samples, sent, { worker, exporter: 'debug' }) > 0, `worker ${worker} has reloaded`);
  }
  setWorkers(hop, 1);
  t.match(await hop.cli('reload'), { code: 1, stderr: /cannot change service.workers/ });
  rewrite(hop, (config) => {
    treeAt(config, 'service').extensions = ['nothing'];
  });
  process.kill(hop.pid(), 'SIGHUP');
  await eventually(
    () => hop.metrics(),
    (found) => total(found, 'tracectl_config_reload_success', { worker: 'supervisor' }) === 0,
    'the invalid configuration is logged',
  );
  t.equal((await sendMany(hop, 3)).length, 3, 'the former one goes on');
});

type Letters = {
  readonly dead_letters: readonly { readonly queue: string; readonly id: number }[];
};

t.test(
  'a gateway of two workers shares a store, counts exactly and has an admin API',
  async (t) => {
    const { gateways, key, adminToken, target } = await startCluster(t, {
      gateways: 1,
      workers: 0,
      gateway(config) {
        treeAt(config, 'service').workers = 2;
        treeAt(config, 'extensions', 'postgres').organization = { events_per_month: 30 };
      },
    });
    const [gateway] = gateways;
    if (gateway === undefined) return;
    t.match(gateway.stdout(), /First start: created the project/, 'any worker can create it');
    t.match(gateway.stdout(), 'management API');
    const asked = await send(gateway.adminBase, {
      path: '/api/v1/projects',
      headers: { authorization: `Bearer ${adminToken}` },
    });
    t.equal(asked.status, 200);

    // Retries 503 as a client does.
    const insist = async (): Promise<number> => {
      for (;;) {
        const status = await sendEvent(target().base, key);
        if (status !== 503) return status;
      }
    };
    const statuses = await Promise.all(Array.from({ length: 40 }, insist));
    t.same([...new Set(statuses)].sort(), [202, 402]);
    // A failed request released its reservation, so the next request can use it.
    while ((await insist()) === 202);
    const samples = await gateway.metrics();
    const [first, second] = [acceptedBy(samples, 1), acceptedBy(samples, 2)];
    t.equal(first + second, 30, 'together they admit the limit');
    t.ok(first > 0 && second > 0, 'both have work');
  },
);

t.test('refuses components that need one process, with their place', async (t) => {
  const { hop } = await prepare(t, 2, (config) => {
    treeAt(config, 'extensions').sqlite = { directory: './store' };
    config.processors = { quotas: { storage: 'file_storage' } };
    treeAt(config, 'exporters').file = { path: './out.jsonl' };
    const service = treeAt(config, 'service');
    service.extensions = ['file_storage', 'health_check', 'sqlite'];
    Object.assign(treeAt(service, 'pipelines', 'traces'), {
      processors: ['quotas'],
      exporters: ['otlphttp', 'file'],
    });
  });
  for (const command of ['validate', 'run']) {
    const { code, stderr } = await hop.cli(command);
    t.equal(code, 78, command);
    t.match(stderr, /yaml:\d+:\d+: error: extensions\.sqlite: the store in SQLite belongs to one/);
    t.match(
      stderr,
      /yaml:\d+:\d+: error: processors\.quotas: .*every worker would count separately/,
    );
    t.match(stderr, /yaml:\d+:\d+: error: exporters\.file: one process writes a file/);
  }
});

t.test('a port in use is an error, also if workers of another daemon hold it', async (t) => {
  const { hop, next } = await start(t, 2);
  const port = new URL(hop.base).port;
  const second = await prepareDaemon({
    edit(config) {
      const parts = hopOf(`127.0.0.1:${port}`, next.url, 2);
      replaceConfig(config, parts);
      treeAt(parts, 'service').extensions = ['file_storage'];
    },
  });
  t.teardown(() => second.remove());
  t.match(await second.cli('run'), { code: 1, stderr: /another program listens there/ });
  await hop.end('SIGTERM');
  const other = createServer().listen(Number(port), '127.0.0.1');
  t.teardown(() => other.close());
  await new Promise((resolve) => other.once('listening', resolve));
  t.match(await hop.cli('run'), { code: 1, stderr: /another program listens there/ });
});

t.test('an error at the start of a worker is printed once and ends the daemon', async (t) => {
  const { hop } = await prepare(t, 2, (config) => {
    treeAt(config, 'extensions', 'file_storage').create_directory = false;
  });
  const { code, stderr } = await hop.cli('run');
  t.equal(code, 1);
  t.match(stderr, /cannot start extension "file_storage": data directory/);
  t.notMatch(stderr, 'it is started again');
  t.notOk(existsSync(join(hop.directory, 'data')));
});
