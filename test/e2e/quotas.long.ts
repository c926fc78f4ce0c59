import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type Answer, eventually, json, list, record, send } from './client.ts';
import { type Daemon, startDaemon, type Tree, total } from './daemon.ts';

/** Limits over the wire, against the real daemon. */

t.setTimeout(300_000);

const BATCH = '/api/v1/observations/batch';
const JSON_TYPE = { 'content-type': 'application/json' };
const HOUR = 3_600_000;

/** Avoids the end of an hour, which would reset the limit during a test. */
async function clearOfTheHour(): Promise<void> {
  const left = HOUR - (Date.now() % HOUR);
  if (left < 30_000) await sleep(left);
}

async function limited(t: Test, quotas: Readonly<Record<string, unknown>>): Promise<Daemon> {
  await clearOfTheHour();
  return startDaemon(t, { config: { processors: { quotas } } });
}

let sent = 0;

function events(count: number, more: Readonly<Record<string, unknown>> = {}): string {
  const one = () => {
    const id = `event-${++sent}`;
    const known = { operation: 'finish', kind: 'span', status: 'ok' };
    return { id, trace_id: `trace-${sent}`, ...known, inputs: 'hello', ...more };
  };
  return JSON.stringify({ events: Array.from({ length: count }, one) });
}

const post = (daemon: Daemon, body: string, headers: Readonly<Record<string, string>> = {}) =>
  daemon.call({ method: 'POST', path: BATCH, headers: { ...JSON_TYPE, ...headers }, body });

/** The details of a component in the health report. */
async function healthOf(daemon: Daemon, id: string): Promise<Record<string, unknown>> {
  const report = record(json(await send(daemon.health, { path: '/readyz?verbose' })));
  const found = list(report.components)
    .map(record)
    .find((component) => component.id === id);
  return record(found?.details ?? {});
}

const statuses = (answers: readonly Answer[]) => {
  const counts: Record<string, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};

t.test('concurrent senders are admitted exactly up to the limit of the month', async (t) => {
  const limit = 250;
  const daemon = await limited(t, { monthly_events: limit });
  const offered = Array.from({ length: 400 }, () => post(daemon, events(1)));
  t.same(statuses(await Promise.all(offered)), { 202: limit, 402: 400 - limit });

  await t.test('every protocol refuses on the head of the request', async (t) => {
    const native = await post(daemon, 'this is never read');
    t.equal(native.status, 402);
    t.match(json(native), { status: 'rejected', code: 'monthly_limit', results: [] });
    t.ok(Number(native.headers['retry-after']) > 0);
    const path = '/api/public/otel/v1/traces';
    const otlp = await daemon.call({ method: 'POST', path, headers: JSON_TYPE, body: '{}' });
    t.equal(otlp.status, 402);
    t.match(json(otlp), { code: 8, message: /month/ });
  });

  await t.test('reading continues', async (t) => {
    t.equal((await daemon.call({ path: '/api/v1/traces' })).status, 200);
  });

  await t.test('health and metrics report the usage', async (t) => {
    const used = { month_events: limit, month_events_limit: limit };
    t.match(await healthOf(daemon, 'quotas'), used);
    const samples = await daemon.metrics();
    t.equal(total(samples, 'tracectl_quota_month_events'), limit);
    t.ok(total(samples, 'tracectl_quota_refusals_total', { limit: 'monthly_events' }) >= 150);
    t.ok(total(samples, 'tracectl_http_refusals_total', { code: 'monthly_limit' }) >= 150);
  });

  await t.test('a restart and a crash keep the usage', async (t) => {
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await daemon.end(signal);
      await daemon.start();
      t.equal((await post(daemon, events(1))).status, 402, signal);
      t.match(await healthOf(daemon, 'quotas'), { month_events: limit });
    }
  });
});

t.test('concurrent batches fill the limit as far as a whole batch fits', async (t) => {
  const limit = 300;
  const daemon = await limited(t, { monthly_events: limit });
  const sizes = Array.from({ length: 120 }, (_, i) => 1 + (i % 7));
  const answers = await Promise.all(
    sizes.map(async (size) => ({ size, answer: await post(daemon, events(size)) })),
  );
  const admitted = answers.filter(({ answer }) => answer.status === 202);
  let sum = admitted.reduce((total, { size }) => total + size, 0);
  t.ok(sum <= limit, `${sum} of ${limit}`);
  for (; (await post(daemon, events(1))).status === 202; sum++);
  t.equal(sum, limit);
  t.match(await healthOf(daemon, 'quotas'), { month_events: limit });
});

t.test('limits the bytes of an hour', async (t) => {
  const daemon = await limited(t, { hourly_bytes: 1000 });
  const large = await post(daemon, events(1, { inputs: 'x'.repeat(2000) }));
  t.equal(large.status, 413);
  t.match(json(large), { code: 'exceeds_hourly_limit' });
  t.match(await healthOf(daemon, 'quotas'), { hour_bytes: 0 }, 'it took nothing');

  t.equal((await post(daemon, events(1, { inputs: 'x'.repeat(900) }))).status, 202);
  const noRoom = await post(daemon, events(1, { inputs: 'x'.repeat(900) }));
  t.equal(noRoom.status, 429);
  const resets = String(record(json(noRoom)).hourly_ingest_reset_at);
  t.match(resets, /^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z$/);
  const wait = Number(noRoom.headers['retry-after']);
  t.ok(wait >= 1 && wait <= 3600);

  const rejected = await post(
    daemon,
    `{"events":[{"id":"bad"},${events(1, { inputs: 'ok' }).slice('{"events":['.length)}`,
  );
  t.match(json(rejected), { accepted: 1, rejected: 1 }, 'there is room for what is small');
  t.match(await healthOf(daemon, 'quotas'), { month_events: 2, hour_bytes: 902 + 4 });
});

t.test('limits the rate of a key without affecting another key', async (t) => {
  const edge = { requests_per_second: 0.001, burst: 5 };
  const daemon = await limited(t, { edge });
  const other = await daemon.createKey();
  const answers = await Promise.all(Array.from({ length: 20 }, () => post(daemon, events(1))));
  t.same(statuses(answers), { 202: 5, 429: 15 });
  const refused = answers.find(({ status }) => status === 429);
  t.match(refused && json(refused), { code: 'rate_limited' });
  t.notOk(refused?.body.includes('hourly_ingest_reset_at'));
  t.ok(Number(refused?.headers['retry-after']) > 0);
  const authorization = `Bearer ${other.token}`;
  t.equal((await post(daemon, events(1), { authorization })).status, 202);
});

t.test('throttles wrong keys of an address, and still accepts a valid key', async (t) => {
  const edge = { failed_authentications: { per_minute: 0.1, burst: 3 } };
  const daemon = await limited(t, { edge });
  const wrong = { authorization: 'Bearer ws_nobody' };
  const seen = [];
  for (let i = 0; i < 5; i++) seen.push((await post(daemon, events(1), wrong)).status);
  t.same(seen, [401, 401, 401, 429, 429]);
  const answer = await post(daemon, events(1));
  t.equal(answer.status, 202);
  t.equal((await post(daemon, events(1), wrong)).status, 429);
});

t.test('health reports durability, backlog and free disk space', async (t) => {
  const daemon = await limited(t, {});
  await post(daemon, events(3));
  const queue = await eventually(
    () => healthOf(daemon, 'disk_queue'),
    (details) => details.queued_entries === 0,
    'an empty queue',
  );
  t.match(queue, { durability: 'synced to disk before the answer', oldest_age_seconds: null });
  const store = await healthOf(daemon, 'sqlite');
  t.ok(Number(store.disk_free_bytes) > 0);
  t.equal(store.disk_min_free_bytes, 64 * 1024 * 1024);
  t.match(await healthOf(daemon, 'quotas'), {
    month_events: 3,
    month_events_limit: 100_000_000,
    hour_bytes_limit: 128 * 1024 ** 3,
    month_resets_at: /^\d{4}-\d\d-01T00:00:00\.000Z$/,
    hour_resets_at: /:00:00\.000Z$/,
  });
});

t.test('a crash under load counts exactly the durable events', async (t) => {
  const daemon = await limited(t, { monthly_events: 1000 });
  let acknowledged = 0;
  const answers = Array.from({ length: 600 }, async () => {
    const status = await post(daemon, events(1)).then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 202) acknowledged++;
    return status;
  });
  await eventually(
    async () => acknowledged,
    (count) => count > 50,
    'some acknowledgements',
    20_000,
  );
  await daemon.end('SIGKILL');
  await Promise.all(answers);
  await daemon.start();
  const verified = await daemon.cli('usage', 'verify');
  t.equal(verified.code, 0, verified.stdout + verified.stderr);
  const used = Number((await healthOf(daemon, 'quotas')).month_events);
  t.ok(used >= acknowledged, `${used} counted, ${acknowledged} acknowledged`);
  const stored = await eventually(
    () => tracesOf(daemon),
    (count) => count >= used,
    'every counted event in the store',
    20_000,
  );
  t.equal(stored, used, 'counted and stored are the same');
});

/** Every event in this file has its own trace. */
async function tracesOf(daemon: Daemon): Promise<number> {
  let count = 0;
  let cursor = '';
  do {
    const page = record(json(await daemon.call({ path: `/api/v1/traces?limit=100${cursor}` })));
    count += list(page.traces).length;
    const next = page.next_cursor;
    cursor = typeof next === 'string' ? `&cursor=${encodeURIComponent(next)}` : '';
  } while (cursor !== '');
  return count;
}

t.test('lists the refusals of a project without payloads', async (t) => {
  const daemon = await limited(t, { monthly_events: 2 });
  const broken = '{"id":"no-trace","inputs":"S3CR3T"}';
  await post(daemon, events(1).replace(']}', `,${broken}]}`));
  await post(daemon, '{"events":[{"inputs":"S3CR3T"');
  await post(daemon, events(5));
  const shown = await eventually(
    async () => (await daemon.cli('rejections', 'list', '--json')).stdout,
    (text) => text.includes('monthly_limit'),
    'the log of rejections',
  );
  const entries = list(record(JSON.parse(shown)).rejections).map(record);
  t.same(entries.map(({ code }) => code).sort(), [
    'invalid_json',
    'missing_field',
    'monthly_limit',
  ]);
  t.notMatch(shown, /S3CR3T/);
  t.notOk(shown.includes(daemon.key));
});

t.test('without a store the ledger is next to the queue and survives a crash', async (t) => {
  await clearOfTheHour();
  const daemon = await startDaemon(t, { edit: withoutStore });
  const authorization = 'Bearer a-key-of-our-own';
  const offer = () => post(daemon, events(2), { authorization });
  t.same(statuses([await offer(), await offer(), await offer()]), { 202: 2, 402: 1 });
  await daemon.end('SIGKILL');
  await daemon.start();
  t.equal((await post(daemon, events(1), { authorization })).status, 202, 'one was left');
  t.equal((await post(daemon, events(1), { authorization })).status, 402);
  t.match(await healthOf(daemon, 'quotas'), { month_events: 5, month_events_limit: 5 });
});

function withoutStore(config: Tree): void {
  const { extensions, service } = config as Record<string, Record<string, Tree>>;
  const directory = extensions?.sqlite?.directory;
  config.extensions = { health_check: extensions?.health_check, file_storage: { directory } };
  config.processors = {
    auth: { keys: [{ token: 'a-key-of-our-own', project: 'proj_own' }] },
    quotas: { storage: 'file_storage', monthly_events: 5 },
    validation: {},
    custom_fields: {},
    normalization: {},
  };
  config.connectors = { disk_queue: { storage: 'file_storage' } };
  config.exporters = { debug: {} };
  Object.assign(service ?? {}, { extensions: ['health_check', 'file_storage'] });
  Object.assign(service?.pipelines?.['traces/store'] ?? {}, { exporters: ['debug'] });
}
