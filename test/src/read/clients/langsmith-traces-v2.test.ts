import type { Client } from 'langsmith/client';
import type { Test } from 'tap';
import t from 'tap';
import type { Observation } from '../../../../src/model/observation.ts';
import { uuidOf } from '../../../../src/read/clients/uuid.ts';
import { anObservation, aTenant, nativeBatch, rawBatch } from '../../../helper/batches.ts';
import { T0, uuid, withTraces } from '../../../helper/client-runs.ts';

const STREAM = { accept: 'text/event-stream', 'content-type': 'application/json' };

/** The traces of `withTraces`, and the items that the SDK finds from their start on. */
async function scene(t: Test, count: number) {
  const { client, projectId, store, ...listener } = await withTraces(t, count);
  const own = uuidOf(projectId);
  const about = { project_id: own, min_start_time: new Date(T0).toISOString() };
  const write = async (given: Partial<Observation>) => {
    const source = nativeBatch(1, { tenant: aTenant({ projectId }), receivedAt: Date.now() });
    await store.traces.write({
      kind: 'observations',
      source,
      observations: [anObservation(given)],
    });
  };
  return { ...listener, store, client, own, about, write };
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const usage = { input_tokens: 8, output_tokens: 2, total_tokens: 10 };
const cost = { input: 1e9, output: 5e8, total: 15e8, source: 'sent' } as const;

t.test('the SDK walks the pages of traces, newest first', async (t) => {
  const { client, about } = await scene(t, 25);
  const ids = async (asked: Parameters<Client['traces']['query']>[0]) =>
    (await all(client.traces.query({ ...about, ...asked }))).map(({ root_run: run }) => run?.id);
  const found = await ids({});
  t.equal(found.length, 25, 'pages of 20 traces');
  t.same(found.slice(0, 2), [uuid(250), uuid(240)]);
  t.same(await ids({ page_size: 4 }), found);
  t.same(await ids({ page_size: 1, trace_ids: [uuid(20), uuid(9), uuid(10)] }), [20, 10].map(uuid));
  const at = (ms: number) => new Date(T0 + ms).toISOString();
  t.same(await ids({ min_start_time: at(3001), max_start_time: at(5001) }), [50, 40].map(uuid));
  t.same(await ids({ project_id: uuid(7) }), [], 'another project');
});

t.test('a trace has its root and its sums', async (t) => {
  const { client, about, write } = await scene(t, 0);
  const startTime = { ms: T0, ns: 0 };
  const trace = { traceId: uuid(1), startTime, endTime: { ms: T0 + 2000, ns: 0 } };
  await write({ ...trace, id: uuid(1), name: 'root', kind: 'chain', sessionId: 's' });
  const details = { cost, ttftMs: 250 };
  const call = { kind: 'llm', model: 'm', usage, details } as const;
  await write({ ...trace, ...call, id: uuid(2), parentId: uuid(1) });
  const selects = ['NAME', 'PROMPT_TOKENS', 'TOTAL_TOKENS', 'TOTAL_COST'] as const;
  t.same(await all(client.traces.query({ ...about, selects: [...selects] })), [
    {
      root_run: { name: 'root', prompt_tokens: null },
      trace_aggregates: { total_tokens: 10, total_cost: 1.5 },
    },
  ]);
  const ids = { ...about, trace_ids: [uuid(1)], selects: ['TOTAL_TOKENS' as const] };
  t.same(await all(client.traces.query(ids)), [
    { root_run: { id: uuid(1) }, trace_aggregates: { total_tokens: 10 } },
  ]);
  t.same(await all(client.traces.query(about)), [{ root_run: { id: uuid(1) } }]);
  const { project_id } = about;
  const ofThread = [
    'THREAD_ID',
    'NAME',
    'LATENCY',
    'PROMPT_TOKENS',
    'TOTAL_COST',
    'ERROR',
  ] as const;
  t.same(await all(client.threads.listTraces('s', { project_id, selects: [...ofThread] })), [
    {
      ...{ thread_id: 's', trace_id: uuid(1), name: 'root', latency: 2, error: null },
      ...{ prompt_tokens: 8, total_cost: 1.5 },
    },
  ]);
  t.match(await all(client.threads.query(about)), [
    { thread_id: 's', count: 1, total_tokens: 10, total_cost: 1.5 },
  ]);
});

t.test('the SDK reads the runs of a trace in one answer', async (t) => {
  const { client, own } = await scene(t, 2);
  const list = async (id: string, asked: object = {}) =>
    (await client.traces.listRuns(id, { project_id: own, ...asked })).items;
  t.same(await list(uuid(10)), [{ id: uuid(10) }, { id: uuid(11) }, { id: uuid(12) }]);
  t.match(await list(uuid(20), { selects: ['NAME', 'OUTPUTS'] }), [
    { name: 'root', outputs: { output: [0] } },
    { name: 'c1' },
    { name: 'c2' },
  ]);
  const at = (digits: string) => `2026-01-15T12:00:01.00${digits}Z`;
  const within = { min_start_time: at('0123457'), max_start_time: at('1123456') };
  t.same(await list(uuid(10), within), [{ id: uuid(11) }], 'the last time is within');
  t.same(await list(uuid(99)), []);
  t.same(await list(uuid(10), { project_id: uuid(7) }), [], 'another project');
});

t.test('refuses the runs of a trace that do not fit into one answer', async (t) => {
  const { store, own, call } = await scene(t, 1);
  const [project] = await store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '' });
  const observations = Array.from({ length: 998 }, (_, index) =>
    anObservation({ id: uuid(1000 + index), index, traceId: uuid(10), parentId: uuid(10) }),
  );
  const write = (some: typeof observations) =>
    store.traces.write({
      kind: 'observations',
      source: nativeBatch(some.length, { tenant }),
      observations: some,
    });
  await write(observations.slice(0, 997));
  const path = `/api/v2/traces/${uuid(10)}/runs?project_id=${own}`;
  const { json } = await call('GET', path);
  t.equal((json as { items: unknown[] }).items.length, 1000);
  await write(observations.slice(997).map((one) => ({ ...one, index: 0 })));
  t.match(await call('GET', path), {
    ...{ status: 400, json: { message: /at most 1000\. .*client\.runs\.query with trace_id/ } },
  });
});

t.test('the SDK walks the traces of a thread, oldest first', async (t) => {
  const { client, own, write } = await scene(t, 0);
  for (const n of [1, 2, 3]) {
    const times = { startTime: { ms: T0 + n, ns: 0 } };
    await write({ id: uuid(n), traceId: uuid(n), sessionId: n === 2 ? 'b' : 'a/b', ...times });
  }
  const list = async (thread: string, page_size: number) =>
    (await all(client.threads.listTraces(thread, { project_id: own, page_size }))).map(
      ({ trace_id: id }) => id,
    );
  t.same(await list('a/b', 1), [uuid(1), uuid(3)]);
  t.same(await list('b', 100), [uuid(2)]);
  t.same(await list('c', 100), []);
});

t.test('a trace is there whose root has no thread, or is not stored', async (t) => {
  const { client, own, about, write } = await scene(t, 0);
  const startTime = { ms: T0, ns: 0 };
  await write({ id: uuid(1), traceId: uuid(1), startTime });
  const inThread = { sessionId: 's', parentId: uuid(1), startTime: { ms: T0 + 1, ns: 0 } };
  await write({ ...inThread, id: uuid(2), traceId: uuid(1) });
  await write({ ...inThread, id: uuid(4), traceId: uuid(3), parentId: uuid(3) });
  const selects = ['THREAD_ID' as const];
  t.same(await all(client.threads.listTraces('s', { project_id: own, selects })), [
    { thread_id: 's', trace_id: uuid(1) },
    { thread_id: 's', trace_id: uuid(3) },
  ]);
  t.match(await all(client.threads.query(about)), [{ thread_id: 's', count: 2 }]);
  const roots = [{ root_run: { id: uuid(4) } }, { root_run: { id: uuid(1) } }];
  t.same(await all(client.traces.query(about)), roots);
  t.same(await all(client.traces.query({ ...about, trace_ids: [uuid(3), uuid(1)] })), roots);
});

t.test('the SDK walks the threads of the last day, and each is there once', async (t) => {
  const { client, own, write, about } = await scene(t, 2);
  for (const [n, hours] of [1, 2, 23, 25].entries()) {
    const startTime = { ms: Date.now() - hours * 3_600_000, ns: 0 };
    await write({ id: uuid(n), traceId: uuid(n), sessionId: `thread-${hours}`, startTime });
  }
  const query = async (asked: Parameters<Client['threads']['query']>[0]) =>
    (await all(client.threads.query(asked))).map(({ thread_id: id }) => id);
  const ofDay = ['thread-1', 'thread-2', 'thread-23'];
  t.same(await query({ project_id: own, page_size: 1 }), ofDay, 'the cursor outlives its second');
  t.same(await query(about), [...ofDay, 'thread-25', 'session-2', 'session-1']);
  t.same(await query({ ...about, project_id: uuid(7) }), []);
});

t.test('a stream has one event with the page, as the SDK reads it', async (t) => {
  const { url, own } = await scene(t, 2);
  const stream = async (path: string, body: object) => {
    const asked = { method: 'POST', headers: STREAM, body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, asked);
    t.equal(response.headers.get('content-type'), 'text/event-stream');
    const text = await response.text();
    const [, json = ''] = /^event: data\ndata: (.*)\n\n$/.exec(text) ?? [];
    return JSON.parse(json);
  };
  const since = { min_start_time: new Date(T0).toISOString(), selects: ['ID', 'INPUTS'] };
  t.match(await stream('/api/v2/runs/query', { project_ids: [own], page_size: 2, ...since }), [
    {
      ...{ op: 'add', path: '' },
      value: { items: [{ id: uuid(20), inputs: { n: 2 } }, { id: uuid(21) }], next_cursor: String },
    },
  ]);
  t.match(await stream('/v2/traces/query', { project_id: own, ...since }), [
    { value: { items: [{ root_run: { id: uuid(20) } }, {}], next_cursor: null } },
  ]);
});

t.test('a stream has line breaks of a payload as spaces', async (t) => {
  const { url, store, about } = await scene(t, 0);
  const [project] = await store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '' });
  const event = `{"id":"${uuid(1)}","trace_id":"${uuid(1)}","inputs":{\r\n"a":"x\\n\\r"}}`;
  const source = rawBatch('native', Buffer.from(`{"events":[${event}]}`), 1, { tenant });
  const startTime = { ms: T0, ns: 0 };
  const one = anObservation({ id: uuid(1), traceId: uuid(1), startTime, payloadMask: 1 });
  await store.traces.write({ kind: 'observations', source, observations: [one] });
  const body = JSON.stringify({ ...about, selects: ['INPUTS'] });
  const asked = { method: 'POST', headers: STREAM, body };
  const text = await (await fetch(`${url}/api/v2/traces/query`, asked)).text();
  t.equal(text.trimEnd().split(/\r\n|\r|\n/).length, 2);
  t.match(text, '{"inputs":{ "a":"x\\n\\r"}}');
});

t.test('refuses what it would ignore', async (t) => {
  const { call, own } = await scene(t, 1);
  for (const [path, body, message] of [
    ['traces', { trace_filter: 'eq(name, "x")' }, /^"trace_filter" is not served here/],
    ['traces', { ai_search: 'x' }, /^"ai_search" is not served here/],
    ['traces', { page_size: 101 }, /page_size must be a whole number from 1 to 100/],
    ['traces', { trace_ids: uuid(1) }, /trace_ids must be a list of texts/],
    ['traces', { project_id: 1 }, /project_id must be a text/],
    ['traces', { selects: ['name'] }, /selects has the unknown property "name"/],
    ['traces', { cursor: 'x' }, /The cursor is not from this list/],
    ['threads', { filter: 'eq(name, "x")' }, /^"filter" is not served here/],
    ['threads', { page_size: 0 }, /page_size must be a whole number from 1 to 100/],
    ['threads', { min_start_time: 'now' }, /min_start_time must be an ISO 8601/],
    ['threads', { cursor: 'x' }, /The cursor is not from this list/],
  ] as const) {
    const answer = await call('POST', `/api/v2/${path}/query`, body);
    t.match(answer, { status: 400, json: { message } }, `${message}`);
  }
  t.match(await call('POST', '/v2/threads/query', {}, STREAM), {
    ...{ status: 400, json: { message: /client\.threads\.query/ } },
  });
  for (const [path, message] of [
    [`traces/${uuid(10)}/runs?filter=x`, /^filter is not served here/],
    [`traces/${uuid(10)}/runs?max_start_time=x`, /max_start_time must be an ISO 8601/],
    [`traces/${uuid(10)}/runs?selects=x`, /unknown property "x"/],
    ['threads/a/traces?tree_filter=x', /^tree_filter is not served here/],
    ['threads/a/traces?page_size=101', /page_size must be a whole number from 1 to 100/],
    ['threads/a/traces?page_size=x', /page_size must be/],
    ['threads/a/traces?selects=ID', /unknown property "ID"/],
  ] as const) {
    const answer = await call('GET', `/v2/${path}&project_id=${own}`);
    t.match(answer, { status: 400, json: { message } }, path);
  }
});
