import t from 'tap';
import { nativeEvent, otlpJsonBody, otlpProtoBody } from '../helper/batches.ts';
import { type Answer, eventually, json } from './client.ts';
import { type Daemon, prepareDaemon, startDaemon, type Tree, total } from './daemon.ts';
import { replaceConfig, shippedConfig, treeAt } from './shipped.ts';

/** Two processes: config/sidecar.yaml, which sends to an embedded daemon. */

t.setTimeout(300_000);

const SIDECAR_KEY = 'key-of-the-application';

/** The shipped configuration with other ports and another directory. */
function toSidecar(config: Tree): void {
  const { endpoint } = treeAt(config, 'receivers', 'native');
  const health = treeAt(config, 'extensions', 'health_check').endpoint;
  const shipped = shippedConfig('sidecar.yaml');
  treeAt(shipped, 'receivers', 'native').endpoint = endpoint;
  treeAt(shipped, 'receivers', 'runs').endpoint = endpoint;
  treeAt(shipped, 'receivers', 'otlp', 'protocols', 'http').endpoint = endpoint;
  treeAt(shipped, 'extensions', 'health_check').endpoint = health;
  const exporter = treeAt(shipped, 'exporters', 'otlphttp');
  treeAt(exporter, 'retry_on_failure').initial_interval = '50ms';
  treeAt(exporter, 'retry_on_failure').max_interval = '200ms';
  replaceConfig(config, shipped);
}

async function pair(t: Parameters<typeof startDaemon>[0]) {
  const gateway = await startDaemon(t);
  const sidecar = await prepareDaemon({
    edit: toSidecar,
    env: {
      SIDECAR_KEY,
      GATEWAY: gateway.base,
      GATEWAY_KEY: gateway.key,
      TRACECTL_DATA: './data',
    },
  });
  t.teardown(() => sidecar.remove());
  await sidecar.start();
  return { gateway, sidecar };
}

function post(daemon: Daemon, path: string, body: unknown, type = 'application/json') {
  const token = daemon.key || SIDECAR_KEY;
  return daemon.call({
    method: 'POST',
    path,
    headers: { authorization: `Bearer ${token}`, 'content-type': type },
    body: Buffer.isBuffer(body) ? body : JSON.stringify(body),
  });
}

type Observation = Record<string, unknown> & { id: string; ended: boolean };

async function observationsOf(daemon: Daemon, traceId: string): Promise<Observation[]> {
  const path = `/api/v1/traces/${encodeURIComponent(traceId)}?payloads=true`;
  const answer = await daemon.call({ path });
  if (answer.status !== 200) return [];
  return (json(answer) as { observations: Observation[] }).observations;
}

function accepted(answer: Answer): Answer {
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.body.toString()}`);
  return answer;
}

t.test('an observation is equal with and without a sidecar', async (t) => {
  const { gateway, sidecar } = await pair(t);
  const eventsOf = (trace: string) => [
    nativeEvent({
      id: 'root',
      trace_id: trace,
      operation: 'start',
      status: 'running',
      end_time: null,
      outputs: null,
      event_version: 1,
      context_metadata: { custom_fields: { region: 'eu' }, tenant: 7 },
      events: [{ name: 'first token', at: 12 }],
    }),
    nativeEvent({
      id: 'child',
      trace_id: trace,
      parent_id: 'root',
      operation: 'error',
      status: 'error',
      kind: 'tool',
      error: { message: 'went wrong', type: 'Broken', stacktrace: 'at x' },
    }),
  ];
  const finishOf = (trace: string) =>
    nativeEvent({
      id: 'root',
      trace_id: trace,
      start_time: null,
      inputs: null,
      event_version: 2,
      model: 'gpt-x',
      usage: { input_tokens: 3, output_tokens: 4 },
      session_id: 's-1',
      user_id: 'u-1',
    });
  for (const [daemon, trace] of [
    [gateway, 'direct'],
    [sidecar, 'by sidecar'],
  ] as const) {
    accepted(await post(daemon, '/api/v1/observations/batch', { events: eventsOf(trace) }));
    accepted(await post(daemon, '/api/v1/observations/batch', { events: [finishOf(trace)] }));
  }
  const whole = async (trace: string) => {
    const observations = await eventually(
      () => observationsOf(gateway, trace),
      (found) =>
        found.length === 2 &&
        found.every(({ ended, model, id }) => ended && (id !== 'root' || model !== null)),
      `the whole trace ${trace}`,
      30_000,
    );
    return observations
      .map(({ created_at: _c, updated_at: _u, source: _s, trace_id: _t, ...rest }) => rest)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  };
  t.same(await whole('by sidecar'), await whole('direct'));
  const samples = await eventually(
    () => sidecar.metrics(),
    (found) => total(found, 'tracectl_queue_entries') === 0,
    'an empty queue',
  );
  t.equal(total(samples, 'tracectl_otlphttp_sent_spans_total'), 2, 'one span an observation');
});

t.test('a killed sidecar delivers its whole backlog after a restart', async (t) => {
  const { gateway, sidecar } = await pair(t);
  await gateway.end('SIGKILL');
  const acknowledged: string[] = [];
  const otlpIds = (i: number) => ({
    traceId: (i + 1).toString(16).padStart(32, '0'),
    spanId: (i + 1).toString(16).padStart(16, '0'),
  });
  const sendOne = async (i: number): Promise<void> => {
    const trace = `trace ${i}`;
    const ids = otlpIds(i);
    const at = '2026-01-15T12:00:00Z';
    const send = [
      () =>
        post(sidecar, '/api/v1/observations/batch', { events: [nativeEvent({ trace_id: trace })] }),
      () =>
        post(sidecar, '/api/v1/runs/batch', {
          post: [
            {
              id: trace,
              trace_id: trace,
              name: 'r',
              run_type: 'llm',
              start_time: at,
              end_time: at,
            },
          ],
        }),
      () => post(sidecar, '/v1/traces', otlpProtoBody([ids]), 'application/x-protobuf'),
      () => post(sidecar, '/v1/traces', otlpJsonBody([ids])),
    ][i % 4];
    const answer = await send?.();
    if (answer?.status === 200 || answer?.status === 202) {
      acknowledged.push(i % 4 < 2 ? trace : ids.traceId);
    }
  };
  for (let i = 0; i < 120; i++) await sendOne(i);
  t.equal(acknowledged.length, 120, 'it answers while the gateway is away');
  // The kill leaves some requests answered and others not.
  const last = Promise.allSettled(Array.from({ length: 40 }, (_, i) => sendOne(120 + i)));
  await sidecar.end('SIGKILL');
  await last;
  await gateway.start();
  await sidecar.start();
  await eventually(
    () => sidecar.metrics(),
    (found) => total(found, 'tracectl_otlphttp_sent_spans_total') > 10,
    'a part of the backlog',
    30_000,
  );
  await sidecar.end('SIGKILL');
  await sidecar.start();
  await eventually(
    () => sidecar.metrics(),
    (found) => total(found, 'tracectl_queue_entries') === 0,
    'an empty queue',
    60_000,
  );
  await eventually(
    () => gateway.metrics(),
    (found) => total(found, 'tracectl_queue_entries') === 0,
    'an empty queue at the gateway',
    60_000,
  );
  const lost: string[] = [];
  for (const trace of acknowledged) {
    if ((await observationsOf(gateway, trace)).length !== 1) lost.push(trace);
  }
  t.same(lost, [], 'every span that was answered for is there, once');
  const samples = await sidecar.metrics();
  t.equal(total(samples, 'tracectl_dead_letter_entries'), 0);
});

t.test('an unknown key holds the queue until the key is known', async (t) => {
  const { gateway, sidecar } = await pair(t);
  const listed = JSON.parse((await gateway.cli('keys', 'list', '--json')).stdout) as
    | { keys: { id: string }[] }
    | { id: string }[];
  const [key] = Array.isArray(listed) ? listed : listed.keys;
  await gateway.cli('keys', 'revoke', key?.id ?? '');
  await eventually(
    () => gateway.call({ path: '/api/v1/me' }),
    ({ status }) => status === 401,
    'the key stops working',
    30_000,
  );
  accepted(await post(sidecar, '/v1/traces', otlpProtoBody([{}]), 'application/x-protobuf'));
  const held = await eventually(
    () => sidecar.metrics(),
    (found) => total(found, 'tracectl_otlphttp_held') === 1,
    'a held queue',
    30_000,
  );
  t.equal(total(held, 'tracectl_dead_letter_entries'), 0);
  t.equal(total(held, 'tracectl_queue_entries'), 1);
  await eventually(
    async () => sidecar.stderr() + sidecar.stdout(),
    (log) => log.includes('Destination refuses all requests'),
    'an error in the log',
  );
});
