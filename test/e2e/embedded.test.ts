import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { type Answer, eventually, json, list, record, send } from './client.ts';
import { type Daemon, type Sample, SOURCE_ENTRY, startDaemon, total } from './daemon.ts';

t.setTimeout(300_000);

const BATCH = '/api/v1/observations/batch';
const JSON_HEADERS = { 'content-type': 'application/json' };
const hasCurl = existsSync('/usr/bin/curl');

t.test('an installation from the first start to a stop', async (t) => {
  const daemon = await startDaemon(t, { entry: SOURCE_ENTRY });
  const first = { key: daemon.key, stdout: daemon.stdout() };

  await t.test('the first start prints a key, the endpoints and requests to paste', async (t) => {
    t.match(first.key, /^ws_[0-9A-Za-z]{43,}$/);
    t.ok(first.stdout.includes(daemon.base), 'prints the address');
    t.notOk(daemon.stderr().includes(first.key), 'the log does not contain the key');
  });

  await t.test(
    'the pasted requests work',
    { skip: hasCurl ? false : 'curl is not here' },
    async (t) => {
      const [post, get] = [...first.stdout.matchAll(/^\s*(curl .*)$/gm)].map((found) => found[1]);
      const shell = (command = '') => promisify(execFile)('/bin/sh', ['-c', command]);
      const answer = record(JSON.parse((await shell(post)).stdout));
      t.match(answer, { status: 'queued', accepted: 1, rejected: 0 });
      const read = await eventually(
        async () => (await shell(get)).stdout,
        (text) => text.includes('"observations"'),
        'the trace of the pasted request',
      );
      t.equal(list(record(JSON.parse(read)).observations).length, 1);
    },
  );

  await t.test('a later start keeps everything and prints no key', async (t) => {
    const before = await post(daemon, [event('kept', 'kept-trace')]);
    t.equal(before.status, 202);
    const exit = await daemon.end('SIGTERM');
    t.same(exit, { code: 0, signal: null });
    await daemon.start();
    t.notMatch(daemon.stdout(), /ws_[0-9A-Za-z]{20}/);
    const found = await observation(daemon, 'kept');
    t.equal(found.trace_id, 'kept-trace');
  });

  await t.test('a second daemon on the same data directory exits with an error', async (t) => {
    const run = await daemon.cli('run', '--set', 'service.telemetry.metrics.level=none');
    t.not(run.code, 0);
    t.not(run.code, null, 'the second daemon exited');
    t.match(run.stderr, /data/, 'names the directory');
    t.match(run.stderr, /already|another|in use|running/i);
    t.notMatch(run.stderr, /\n\s+at /, 'no stack trace');
    t.equal(
      (await post(daemon, [event('still', 'x')])).status,
      202,
      'the first daemon keeps serving',
    );
  });

  await t.test('a revoked key is refused without delay, and stays in the list', async (t) => {
    const { id, token } = await daemon.createKey('--name', 'short-lived');
    const authorization = `Bearer ${token}`;
    t.equal((await post(daemon, [event('r', 'x')], { authorization })).status, 202);
    const revoked = await daemon.cli('keys', 'revoke', id);
    t.equal(revoked.code, 0, revoked.stderr);
    t.equal((await post(daemon, [event('r', 'x')], { authorization })).status, 401);
    const again = await daemon.cli('keys', 'revoke', id);
    t.equal(again.code, 0, 'a second revocation succeeds');
    const listed = await daemon.cli('keys', 'list', '--json');
    const keys = list(record(JSON.parse(listed.stdout)).keys).map(record);
    t.type(keys.find((key) => key.id === id)?.revoked_at, 'string');
    t.notOk(listed.stdout.includes(token.slice(0, 30)), 'no token is listed');
  });

  await t.test('last use is shown within ten seconds', async (t) => {
    const { id, token } = await daemon.createKey();
    await post(daemon, [event('u', 'x')], { authorization: `Bearer ${token}` });
    const used = await eventually(
      async () => {
        const { stdout } = await daemon.cli('keys', 'list', '--json');
        const keys = list(record(JSON.parse(stdout)).keys).map(record);
        return keys.find((key) => key.id === id)?.last_used_at;
      },
      (when) => typeof when === 'string',
      'last_used_at',
      12_000,
    );
    t.ok(Date.now() - Date.parse(String(used)) < 60_000);
  });

  await t.test('SIGTERM under load loses no acknowledged event', async (t) => {
    const load = startLoad(daemon, 8);
    await eventually(
      async () => load.acknowledged.length,
      (count) => count > 50,
      'some load',
    );
    const exit = await daemon.end('SIGTERM');
    await load.stop();
    t.same(exit, { code: 0, signal: null });
    t.match(daemon.stderr(), /shut down/i, 'logs a report of the stop');
    await daemon.start();
    const missing: string[] = [];
    for (const { id, rawEventId } of load.acknowledged) {
      const raw = await daemon.call({ path: `/api/v1/raw-events/${rawEventId}` });
      if (raw.status !== 200 || !raw.body.toString().includes(`"${id}"`)) missing.push(id);
    }
    t.equal(missing.join(), '');
    await settled(daemon);
  });
});

t.test('the answers that a client gets', async (t) => {
  const daemon = await startDaemon(t);

  await t.test('accepts a batch in part, with a result for each item', async (t) => {
    const answer = await post(daemon, [
      event('good', 'partial'),
      { ...event('bad', 'partial'), kind: 'nonsense' },
      event('fine', 'partial'),
    ]);
    t.equal(answer.status, 202);
    const body = record(json(answer));
    t.match(body, { status: 'queued', accepted: 2, rejected: 1 });
    t.match(list(body.results)[1], { index: 1, id: 'bad', status: 'rejected' });
    await observation(daemon, 'fine');
    const rejected = await daemon.call({ path: '/api/v1/observations/bad' });
    t.equal(rejected.status, 404, 'a rejected event is not stored');
  });

  await t.test(
    'an idempotency key replays the first answer and refuses another body',
    async (t) => {
      const key = { 'idempotency-key': 'once-1' };
      const one = await post(daemon, [event('i-1', 'idem')], key);
      const again = await post(daemon, [event('i-1', 'idem')], key);
      t.equal(again.status, 202);
      t.same(again.body, one.body, 'the same answer, including raw event ids');
      const other = await post(daemon, [event('i-2', 'idem')], key);
      t.equal(other.status, 409);
      t.equal(record(json(other)).code, 'idempotency_conflict');
      await daemon.end('SIGKILL');
      await daemon.start();
      const later = await post(daemon, [event('i-1', 'idem')], key);
      t.same(later.body, one.body, 'the same answer after a crash');
    },
  );

  await t.test('the read API has the shapes of the contract', (t) => readingShapes(t, daemon));

  await t.test('reading needs a key with traces:read', async (t) => {
    const { token } = await daemon.createKey('--permission', 'ingest:write');
    const authorization = `Bearer ${token}`;
    t.equal(
      (await daemon.call({ path: '/api/v1/traces', headers: { authorization } })).status,
      403,
    );
    t.equal((await send(daemon.base, { path: '/api/v1/traces' })).status, 401);
  });

  await t.test(
    'the accounts close: accepted is stored, queued, set aside or dropped',
    async (t) => {
      await settled(daemon);
      const samples = await daemon.metrics();
      t.ok(samples.length > 20, 'metrics are served');
      const answer = await send(daemon.metricsBase, { path: '/metrics' });
      t.match(answer.headers['content-type'], /^text\/plain/);
      t.match(answer.body.toString(), /^# HELP tracectl_receiver_accepted_items_total .+$/m);
    },
  );

  await t.test('health endpoints report readiness, liveness and the components', async (t) => {
    const verbose = await send(daemon.health, { path: '/readyz?verbose' });
    t.equal(verbose.status, 200);
    t.match(json(verbose), { status: 'ready', components: Array });
    t.equal((await send(daemon.health, { path: '/livez' })).status, 200);
  });
});

t.test('a full queue answers 503 with Retry-After, and recovers', async (t) => {
  const daemon = await startDaemon(t, { queue: { max_bytes: '300KiB' } });
  const filling = 'x'.repeat(100_000);
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const tried = { full: [] as Answer[], accepted: 0 };
  for (let round = 0; round < 20 && tried.full.length === 0; round++) {
    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, i) =>
        post(daemon, [{ ...event(`f-${round}-${i}`, 'full'), inputs: filling }], {}, agent),
      ),
    );
    t.ok(answers.every(({ status }) => status === 202 || status === 503));
    tried.full.push(...answers.filter(({ status }) => status === 503));
    tried.accepted += answers.filter(({ status }) => status === 202).length;
  }
  const [refused] = tried.full;
  t.ok(tried.accepted > 0, 'some batches were accepted');
  t.ok(refused !== undefined, 'some batches were refused');
  t.match(refused?.headers['retry-after'], /^\d+$/);
  t.match(refused === undefined ? {} : json(refused), { code: 'unavailable', accepted: 0 });
  const recovered = await eventually(
    () => post(daemon, [event('after', 'full')], {}, agent),
    ({ status }) => status === 202,
    'recovery',
  );
  t.equal(recovered.status, 202);
  const samples = await settled(daemon);
  t.equal(
    total(samples, 'tracectl_receiver_accepted_items_total'),
    tried.accepted + 1,
    'what was refused is not counted',
  );
});

async function readingShapes(t: Test, daemon: Daemon): Promise<void> {
  await post(daemon, [
    { ...event('root', 'shape'), name: 'root', kind: 'agent', start_time: '2026-01-02T03:04:05Z' },
    {
      ...event('leaf', 'shape'),
      parent_id: 'root',
      operation: 'finish',
      status: 'success',
      name: 'leaf',
      start_time: '2026-01-02T03:04:06.123456789Z',
      end_time: '2026-01-02T03:04:07Z',
      inputs: { precise: 1 },
      usage: { input_tokens: 3, output_tokens: 4 },
      custom_fields: { team: 'a' },
    },
  ]);
  await observation(daemon, 'leaf');

  const traces = record(json(await daemon.call({ path: '/api/v1/traces?limit=1' })));
  t.same(Object.keys(traces).sort(), ['next_cursor', 'partial', 'searched_to', 'traces']);
  t.equal(list(traces.traces).length, 1);
  const page = await daemon.call({
    path: `/api/v1/traces?limit=1&cursor=${encodeURIComponent(String(traces.next_cursor))}`,
  });
  t.equal(page.status, 200, 'the next page');
  t.equal((await daemon.call({ path: '/api/v1/traces?cursor=nonsense' })).status, 400);

  const whole = record(json(await daemon.call({ path: '/api/v1/traces/shape?payloads=true' })));
  t.same(Object.keys(whole).sort(), ['next_cursor', 'observations', 'trace']);
  t.match(whole.trace, {
    id: 'shape',
    name: 'root',
    observation_count: 2,
    start_time: '2026-01-02T03:04:05.000Z',
  });
  const leaf = list(whole.observations).map(record).at(1) ?? {};
  t.match(leaf, {
    id: 'leaf',
    trace_id: 'shape',
    parent_id: 'root',
    kind: 'span',
    status: 'success',
    start_time: '2026-01-02T03:04:06.123456789Z',
    inputs: { precise: 1 },
    usage: { input_tokens: 3, output_tokens: 4 },
    custom_fields: { team: 'a' },
    event_version: '0',
    ended: true,
    source: 'native',
  });
  const fields =
    'context_metadata created_at custom_fields end_time ended error event_version events external id inputs kind metadata model name outputs parent_id project_id source start_time status trace_id updated_at usage';
  for (const field of fields.split(' ')) t.ok(field in leaf, `an observation has ${field}`);

  t.equal((await daemon.call({ path: '/api/v1/traces/nothing-here' })).status, 404);
  t.equal((await daemon.call({ path: '/api/v1/observations/nothing-here' })).status, 404);
  t.equal((await daemon.call({ path: '/api/v1/raw-events/nothing-here' })).status, 404);
  const me = record(json(await daemon.call({ path: '/api/v1/me' })));
  t.match(me, { project: { id: /^proj_/ }, key: { id: /^key_/, prefix: /^ws_/ } });
  t.same(record(me.key).permissions, ['ingest:write', 'traces:read']);
}

function event(id: string, traceId: string): Record<string, unknown> {
  return { id, trace_id: traceId, operation: 'start', kind: 'span', status: 'running' };
}

function post(
  daemon: Daemon,
  events: readonly Record<string, unknown>[],
  headers: Readonly<Record<string, string>> = {},
  agent?: Agent,
): Promise<Answer> {
  return daemon.call({
    method: 'POST',
    path: BATCH,
    headers: { ...JSON_HEADERS, ...headers },
    body: JSON.stringify({ events }),
    ...(agent === undefined ? {} : { agent }),
  });
}

async function observation(daemon: Daemon, id: string): Promise<Record<string, unknown>> {
  const answer = await eventually(
    () => daemon.call({ path: `/api/v1/observations/${id}` }),
    ({ status }) => status === 200,
    `observation ${id}`,
  );
  return record(json(answer));
}

type Acknowledged = { readonly id: string; readonly rawEventId: string };

/** Clients that send until they are stopped or refused, and remember what was acknowledged. */
function startLoad(
  daemon: Daemon,
  clients: number,
): { readonly acknowledged: Acknowledged[]; stop(): Promise<void> } {
  const acknowledged: Acknowledged[] = [];
  let stopped = false;
  let count = 0;
  const client = async () => {
    while (!stopped) {
      const id = `load-${count++}`;
      const answer = await post(daemon, [event(id, 'load')]).catch(() => undefined);
      if (answer?.status !== 202) return;
      const [result] = list(record(json(answer)).results).map(record);
      acknowledged.push({ id, rawEventId: String(result?.raw_event_id) });
    }
  };
  const running = Array.from({ length: clients }, client);
  return {
    acknowledged,
    stop: async () => {
      stopped = true;
      await Promise.all(running);
    },
  };
}

/** Waits for an empty queue and checks that nothing was lost or counted twice on the way. */
async function settled(daemon: Daemon): Promise<Sample[]> {
  return eventually(
    () => daemon.metrics(),
    (samples) =>
      total(samples, 'tracectl_queue_items') === 0 &&
      total(samples, 'tracectl_exporter_sent_items_total', { exporter: 'sqlite' }) +
        total(samples, 'tracectl_dead_letter_items') >=
        total(samples, 'tracectl_receiver_accepted_items_total'),
    'an empty queue with closed accounts',
    20_000,
  );
}

t.test('the places of reads at the store rest while a client sends', async (t) => {
  const daemon = await startDaemon(t);
  const restsAfterReads = async (): Promise<number> => {
    const reads = Array.from({ length: 4 }, () => daemon.call({ path: '/api/v1/traces' }));
    for (const { status } of await Promise.all(reads)) t.equal(status, 200);
    return total(await daemon.metrics(), 'tracectl_read_turns', { state: 'running' });
  };
  t.equal(await restsAfterReads(), 0, 'no client sends');
  const headers = { ...JSON_HEADERS, authorization: `Bearer ${daemon.key}` };
  const sending = request(`${daemon.base}${BATCH}`, { method: 'POST', headers });
  sending.on('error', () => {});
  t.teardown(() => sending.destroy());
  sending.write('{"events":[');
  await eventually(restsAfterReads, (running) => running > 0, 'a rest');
});
