import { once } from 'node:events';
import { connect } from 'node:net';
import type { Test } from 'tap';
import t from 'tap';
import { payloadAudit } from '../../../extensions/admin/payload-audit.ts';
import { READING_REQUESTS } from '../../../extensions/admin/reading-requests.ts';
import { rawEventId } from '../../../src/model/batch.ts';
import { MAX_ID_BYTES } from '../../../src/model/json/id.ts';
import type { AuditEntry } from '../../../src/tenancy/contract.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { ATTACHMENT } from '../../helper/fake-attachments.ts';
import { anObservation, aTrace } from '../../helper/fake-traces.ts';
import { advanceUntil, until } from '../../helper/until.ts';
import { serving, TOKEN } from './serving.ts';

const BATCH = nativeBatch(1);

/** The extension over a store with one trace in its first project. */
async function reading(t: Test, options: Parameters<typeof serving>[1] = {}) {
  const rig = await serving(t, options);
  const payload = { inputs: { batchId: BATCH.id, position: 0 } };
  rig.store.held.traces = [aTrace()];
  rig.store.held.observations = [anObservation({ payload })];
  rig.store.held.batches = [BATCH];
  const [first] = (await rig.ask('GET', '/api/v1/projects')).json.projects;
  const project = `/api/v1/projects/${first.id}`;
  return { ...rig, id: first.id as string, get: (path: string) => rig.ask('GET', project + path) };
}

t.test('serves every reading request of a project with the admin token', async (t) => {
  const { get, reads } = await reading(t);
  t.match(await get('/traces'), { status: 200, json: { traces: [{ id: 'trace-1' }] } });
  const shown = await get('/traces/trace-1');
  t.match(shown.json, { trace: { name: 'chat' }, observations: [{ id: 'o-1' }] });
  t.notOk('inputs' in shown.json.observations[0]);
  const whole = await get('/traces/trace-1?payloads=true');
  t.match(whole.json.observations[0].inputs, { messages: [{ content: 'hello' }] });
  t.match((await get('/observations/o-1')).json, { id: 'o-1', inputs: {} });
  const event = await get(`/raw-events/${rawEventId(BATCH.id, 0)}`);
  t.match(event, { status: 200, json: { key_id: 'key_test', event: { name: 'chat' } } });
  t.equal(whole.headers.get('cache-control'), 'no-store');
  t.equal(whole.headers.get('x-content-type-options'), 'nosniff');
  await until(() => reads.heldBytes === 0);
});

t.test('serves a HEAD request without a body', async (t) => {
  const { ask, id } = await reading(t);
  const head = await ask('HEAD', `/api/v1/projects/${id}/traces`);
  t.same([head.status, head.text], [200, '']);
});

t.test('serves the trace with the longest id', async (t) => {
  const { get, store } = await reading(t);
  for (const id of ['x'.repeat(MAX_ID_BYTES), 'ü'.repeat(MAX_ID_BYTES / 2)]) {
    store.held.traces = [aTrace({ id })];
    t.equal((await get(`/traces/${encodeURIComponent(id)}`)).status, 200);
    t.equal((await get(`/traces/${encodeURIComponent(`${id}x`)}`)).status, 404);
  }
});

t.test('serves the head of an answer that has no length', async (t) => {
  const { ask, id, reads } = await reading(t);
  for (const [path, type] of [
    ['traces/stream', 'text/event-stream'],
    ['export', 'application/x-ndjson'],
    ['export?format=csv', 'text/csv'],
  ] as const) {
    const head = await ask('HEAD', `/api/v1/projects/${id}/${path}`);
    t.same([head.status, head.text], [200, ''], path);
    t.match(head.headers.get('content-type'), type);
    t.equal(head.headers.get('cache-control'), 'no-store');
  }
  const refused = await ask('HEAD', `/api/v1/projects/${id}/export?format=xml`);
  t.equal(refused.status, 400);
  await until(() => reads.heldBytes === 0);
  t.same([reads.exports.taken, reads.streams.taken], [0, 0]);
});

t.test('a stream of traces ends after its project was deleted', async (t) => {
  const { url, id, ask, store, clock } = await reading(t);
  // The last project cannot be deleted.
  await ask('POST', '/api/v1/projects', { body: { name: 'other' } });
  const stream = await fetch(`${url}/api/v1/projects/${id}/traces/stream`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  t.equal(stream.status, 200);
  let hasEnded = false;
  const text = stream.text().then((read) => {
    hasEnded = true;
    return read;
  });
  await store.projects.delete(id);
  await advanceUntil(clock, 1_000, () => hasEnded);
  t.match(await text, /^: the stream begins/);
});

t.test('answers errors in the form of the admin API', async (t) => {
  const { get, ask, id } = await reading(t);
  const none = await ask('GET', '/api/v1/projects/proj_none/traces');
  t.match(none, { status: 404, json: { code: 'unknown_project' } });
  for (const path of ['/traces/other', '/observations/other', '/raw-events/other']) {
    const { status, json } = await get(path);
    t.same([status, Object.keys(json), json.code], [404, ['code', 'message'], 'not_found'], path);
  }
  const bad = await get('/traces?limit=0');
  t.same([bad.status, bad.json.code], [400, 'invalid_request']);
  t.match(bad.json.message, 'limit');
  const query = await get('/traces?q=modle:x');
  t.match(query, { status: 400, json: { code: 'invalid_query', position: 0 } });
  t.equal((await get('/traces?cursor=1')).json.code, 'invalid_cursor');
  t.equal((await get('/traces?session_id=s')).json.code, 'invalid_request');
  const path = `/api/v1/projects/${id}/traces`;
  t.match(await ask('GET', path, { token: null }), { status: 401, json: { code: 'unauthorized' } });
  const posted = await ask('POST', path, { body: {} });
  t.same([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD']);
});

t.test('another project has none of the data', async (t) => {
  const { ask } = await reading(t);
  const { id } = (await ask('POST', '/api/v1/projects', { body: { name: 'other' } })).json;
  t.same((await ask('GET', `/api/v1/projects/${id}/traces`)).json.traces, []);
  t.equal((await ask('GET', `/api/v1/projects/${id}/traces/trace-1`)).status, 404);
});

t.test('the reads of the token are bounded like those of a key', async (t) => {
  const { get } = await reading(t, { limits: { reads_per_key: 0 } });
  const refused = await get('/traces');
  t.match(refused, { status: 429, json: { code: 'rate_limited' } });
  t.equal(refused.headers.get('retry-after'), '1');
});

t.test('a client that leaves while its project is looked up holds nothing', async (t) => {
  const { ask, id, url, store, reads, clock } = await reading(t);
  const signedIn = await ask('POST', '/api/v1/session', { token: null, body: { token: TOKEN } });
  const [cookie = ''] = signedIn.headers.getSetCookie();
  const { organizationOf } = store.projects;
  const asked = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  store.projects.organizationOf = async (project) => {
    asked.resolve();
    await goOn.promise;
    return organizationOf(project);
  };
  const timers = clock.pending();
  const connection = connect(Number(new URL(url).port), '127.0.0.1');
  const head = [
    `GET /api/v1/projects/${id}/traces HTTP/1.1`,
    'Host: 127.0.0.1',
    `Cookie: ${cookie}`,
  ];
  connection.write(`${head.join('\r\n')}\r\n\r\n`);
  await asked.promise;
  const left = once(connection, 'close');
  connection.resetAndDestroy();
  await left;
  // The server answers each request after it has gone on with the earlier one.
  t.equal((await ask('GET', '/api/v1/organization')).status, 200);
  goOn.resolve();
  t.equal((await ask('GET', '/api/v1/organization')).status, 200);
  t.equal(reads.heldBytes, 0);
  t.equal(clock.pending(), timers, 'its session is watched no more');
});

t.test('a read without memory is refused with 503', async (t) => {
  const { get } = await reading(t, { limits: { read_bytes: 1 } });
  t.match(await get('/traces'), { status: 503, json: { code: 'unavailable' } });
});

t.test('a read of payloads is in the audit log, once a minute for each trace', async (t) => {
  const { get, store, clock, id } = await reading(t);
  await get('/traces');
  await get('/traces/trace-1');
  await get('/traces/other?payloads=true');
  t.same(store.entries, [], 'a read without payloads is not recorded');
  const at = clock.now();
  await get('/traces/trace-1?payloads=true');
  const entry = { at, actor: 'admin-token', address: '127.0.0.1', action: 'payloads.read' };
  t.same(store.entries, [{ ...entry, subject: id, details: { trace: 'trace-1' } }]);
  await get('/observations/o-1');
  clock.advance(59_999);
  await get('/traces/trace-1?payloads=true');
  t.equal(store.entries.length, 1, 'repeated reads of a trace are one entry');
  await get(`/raw-events/${rawEventId(BATCH.id, 0)}`);
  t.same(store.entries[1]?.details, { raw_event: rawEventId(BATCH.id, 0) });
  clock.advance(1);
  await get('/observations/o-1');
  t.match(store.entries[2], { at: at + 60_000, details: { trace: 'trace-1' } });
  clock.set(at - 60_000);
  await get('/observations/o-1');
  t.match(store.entries[3], { at: at - 60_000 }, 'the clock went back');
  await get(`/attachments/${ATTACHMENT}`);
  t.same(store.entries[4]?.details, { attachment: ATTACHMENT });
});

t.test('no payload is sent if its read cannot be recorded', async (t) => {
  const { get, store } = await reading(t);
  const record = store.audit.record;
  store.audit.record = () => Promise.reject(new Error('the log is full'));
  const refused = await get('/observations/o-1');
  t.match(refused, { status: 503, json: { code: 'unavailable' } });
  t.notMatch(refused.text, 'hello');
  store.audit.record = record;
  t.equal((await get('/observations/o-1')).status, 200);
  t.equal(store.entries.length, 1, 'the failed record did not count as one');
});

t.test('concurrent reads of a trace wait for one record', async (t) => {
  const entries: AuditEntry[] = [];
  const recorded = Promise.withResolvers<void>();
  const log = {
    async record(entry: AuditEntry) {
      entries.push(entry);
      await recorded.promise;
    },
  };
  const audit = payloadAudit(log, fakeClock());
  const read = (actor: string, projectId: string, id: string) =>
    audit.note({ by: { actor, address: null }, projectId, of: { kind: 'trace', id } });
  const both = [read('a', 'p', '1'), read('a', 'p', '1')];
  t.equal(entries.length, 1);
  recorded.resolve();
  await Promise.all(both);
  await Promise.all([read('b', 'p', '1'), read('a', 'q', '1'), read('a', 'p', '2')]);
  t.equal(entries.length, 4, 'another actor, project or trace is another read');
});

t.test('the audit remembers a bounded number of reads', async (t) => {
  let records = 0;
  const log = { record: async () => void records++ };
  const audit = payloadAudit(log, fakeClock());
  const by = { actor: 'a', address: null };
  const read = (id: number) =>
    audit.note({ by, projectId: 'p', of: { kind: 'trace', id: String(id) } });
  for (let id = 0; id < 10_000; id++) await read(id);
  await read(0);
  t.equal(records, 10_000, 'the ten thousandth is remembered beside the first');
  await read(10_000);
  await read(0);
  t.equal(records, 10_002, 'one more evicts the first, which is recorded again');
});

t.test('every reading request of a project is described', async (t) => {
  const { routes } = await reading(t);
  t.same(
    routes.map(({ path }) => path),
    READING_REQUESTS.map(({ path }) => path),
  );
});

t.test('a session with its payloads, and a stored score, are in the audit log', async (t) => {
  const { get, ask, id, store } = await reading(t);
  t.match((await get('/sessions')).json, { sessions: [{ id: 's', traces: 1 }] });
  t.same(
    store.entries.filter(({ subject }) => subject === id),
    [],
    'a list has no payloads',
  );
  const { json } = await get('/sessions/s');
  t.match(json, {
    session: { id: 's' },
    traces: [{ id: 'trace-1', input: { messages: [{ content: 'hello' }] }, output: null }],
  });
  const path = `/api/v1/projects/${id}/traces/trace-1/scores`;
  const created = await ask('POST', path, { body: { id: 'mine', name: 'ok', value: true } });
  t.match(created, { status: 201, json: { id: 'mine', trace_id: 'trace-1', value: true } });
  t.match((await get('/traces/trace-1/scores')).json, { scores: [{ id: 'mine', name: 'ok' }] });
  const refused = await ask('POST', path, { body: { name: 'ok' } });
  t.match(refused, { status: 400, json: { code: 'invalid_request', message: /body.value/ } });
  t.same(
    store.entries
      .filter(({ subject }) => subject === id)
      .map(({ action, details }) => [action, details]),
    [
      ['payloads.read', { session: 's' }],
      ['scores.write', { trace: 'trace-1', score: 'mine' }],
    ],
  );
});

t.test('a score that cannot be audited is not stored', async (t) => {
  const { get, ask, id, store } = await reading(t);
  store.audit.record = () => Promise.reject(new Error('full'));
  const path = `/api/v1/projects/${id}/traces/trace-1/scores`;
  t.equal((await ask('POST', path, { body: { name: 'ok', value: 1 } })).status, 503);
  t.same((await get('/traces/trace-1/scores')).json, { scores: [] });
});
