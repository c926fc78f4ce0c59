import { Client } from 'langsmith/client';
import t from 'tap';
import type { Observation } from '../../../../src/model/observation.ts';
import { uuidOf } from '../../../../src/read/clients/uuid.ts';
import type { Store } from '../../../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch } from '../../../helper/batches.ts';
import { T0, uuid, withTraces } from '../../../helper/client-runs.ts';

t.test('the SDK reads a run with its payloads', async (t) => {
  const { client, projectId } = await withTraces(t, 1);
  t.match(await client.readRun(uuid(10)), {
    ...{ id: uuid(10), trace_id: uuid(10), parent_run_id: null, name: 'root', run_type: 'chain' },
    ...{ status: 'success', inputs: { n: 1, i: 0 }, outputs: { output: [0] }, error: null },
    ...{ start_time: '2026-01-15T12:00:01.000123Z', session_id: uuidOf(projectId) },
    ...{ extra: { metadata: { i: 0 } }, thread_id: 'session-1' },
  });
  t.match(await client.readRun(uuid(11)), { inputs: { input: 'text' }, thread_id: null });
  t.match(await client.readRun(uuid(11)), { parent_run_id: uuid(10) });
  t.match(await client.readRun(uuid(12)), { status: 'error', error: 'boom', run_type: 'llm' });
  await t.rejects(client.readRun(uuid(99)), /404/);
});

t.test('the SDK reads the example and the error of a run of evaluate', async (t) => {
  const { store, client, projectId } = await withTraces(t, 0);
  const [ids, traceId] = [[10, 11].map(uuid), uuid(10)] as const;
  const events = ids.map((id) => ({ id, trace_id: traceId, operation: 'finish', status: 'error' }));
  const source = nativeBatch(events, { tenant: aTenant({ projectId }) });
  const error = { message: '', type: 'CancelledError', stacktrace: null };
  const observations = [uuid(7), 'no UUID'].map((example, index) =>
    anObservation({
      ...{ id: ids[index] ?? '', index, traceId, error, status: 'error' },
      external: { reference_example_id: example },
    }),
  );
  await store.traces.write({ kind: 'observations', source, observations });
  const evaluated = { error: 'CancelledError', reference_example_id: uuid(7) };
  t.match(await client.readRun(uuid(10)), evaluated);
  t.match(await client.readRun(uuid(11)), { ...evaluated, reference_example_id: null });
});

t.test('the SDK reads the time of the first token', async (t) => {
  const { client, store, projectId } = await withTraces(t, 0);
  const source = nativeBatch(2, { tenant: aTenant({ projectId }) });
  const startTime = { ms: T0, ns: 999_000 };
  const observations = [{ ttftMs: 1500.002 }, {}].map((details, index) =>
    anObservation({ id: uuid(10 + index), index, traceId: uuid(10), startTime, details }),
  );
  await store.traces.write({ kind: 'observations', source, observations });
  const first = '2026-01-15T12:00:01.501001Z';
  t.match(await client.readRun(uuid(10)), { first_token_time: first });
  t.match(await client.readRun(uuid(11)), { first_token_time: null });
  const asked = { project_id: uuidOf(projectId), selects: ['FIRST_TOKEN_TIME' as const] };
  t.same(await client.runs.retrieve(uuid(10), asked), { first_token_time: first });
});

t.test('the SDK lists the runs of a trace, each with its path from the root', async (t) => {
  const { client, list } = await withTraces(t, 2);
  const runs = await list({ traceId: uuid(20) });
  t.same(
    runs.map(({ id }) => id),
    [uuid(20), uuid(21), uuid(22)],
  );
  t.equal(
    runs[1]?.dotted_order,
    `20260115T120002000123Z${uuid(20)}.20260115T120002001123Z${uuid(21)}`,
  );
  t.same((await list({ traceId: uuid(20), limit: 2 })).length, 2);
  const tree = await client.readRun(uuid(10), { loadChildRuns: true });
  t.match(tree.child_runs, [{ id: uuid(11), child_runs: [{ id: uuid(12) }] }]);
});

t.test('the SDK lists runs of the newest traces, by id and by condition', async (t) => {
  const { list, call } = await withTraces(t, 25);
  const idsOf = async (asked: Parameters<Client['listRuns']>[0]) =>
    (await list(asked)).map(({ id }) => id);
  const roots = await idsOf({ projectName: 'any name', isRoot: true });
  t.equal(roots.length, 25, 'over several steps');
  t.equal(roots[0], uuid(250), 'the newest first');
  t.equal((await idsOf({ projectName: 'p' })).length, 75);
  t.same(await idsOf({ projectName: 'p', isRoot: true, limit: 1 }), [uuid(250)]);
  t.equal((await idsOf({ projectName: 'p', error: true, limit: 30 })).length, 25);
  t.equal((await idsOf({ projectName: 'p', runType: 'llm', isRoot: true })).length, 0);
  t.same(await idsOf({ id: [uuid(11), uuid(999)] }), [uuid(11)]);
  t.same(await idsOf({ parentRunId: uuid(21) }), [uuid(22)]);
  const start = new Date(T0 + 24_500);
  t.same(await idsOf({ projectName: 'p', isRoot: true, startTime: start }), [uuid(250)]);
  t.same(await idsOf({ projectId: uuid(7) }), [], 'another project');
  const first = await call('POST', '/runs/query', { is_root: true, limit: 10 });
  const { runs, cursors } = first.json as { runs: unknown[]; cursors: { next: string } };
  t.equal(runs.length, 10);
  const body = { is_root: true, limit: 100, cursor: cursors.next };
  t.match(await call('POST', '/runs/query', body), {
    json: { runs: { length: 15 }, cursors: { next: null } },
  });
  t.equal((await call('POST', '/runs/query', { ...body, cursor: 'x' })).status, 400);
});

t.test('pages have every run once, wherever one is full', async (t) => {
  const { call } = await withTraces(t, 3);
  const pagesOf = async (asked: object) => {
    const pages: string[][] = [];
    let cursor: string | null | undefined;
    do {
      const body = { ...asked, ...(cursor === undefined ? {} : { cursor }) };
      const { status, json } = await call('POST', '/runs/query', body);
      t.equal(status, 200);
      const found = json as { runs: { id: string }[]; cursors: { next: string | null } };
      pages.push(found.runs.map(({ id }) => id));
      cursor = found.cursors.next;
    } while (cursor !== null);
    return pages;
  };
  const [a, b, c] = [3, 2, 1].map((n) => [0, 1, 2].map((i) => uuid(10 * n + i)));
  const all = [a, b, c].flatMap((ids) => ids ?? []);
  t.same(await pagesOf({}), [all]);
  t.same(await pagesOf({ limit: 4 }), [all.slice(0, 4), all.slice(4, 8), all.slice(8)]);
  t.same(
    (await pagesOf({ limit: 1 })).filter(({ length }) => length > 0),
    all.map((id) => [id]),
  );
  const errors = await pagesOf({ limit: 2, error: true });
  t.same(errors.flat(), [uuid(32), uuid(22), uuid(12)]);
  t.same(await pagesOf({ trace: uuid(20), limit: 2 }), [b?.slice(0, 2), b?.slice(2)]);
  t.same(await pagesOf({ parent_run: uuid(20), limit: 2 }), [[uuid(21)]]);
  const roots = await pagesOf({ is_root: true, limit: 1.5 });
  t.same(roots.flat(), [uuid(30), uuid(20), uuid(10)]);
});

t.test('the SDK lists all runs of a trace, however many it has', async (t) => {
  const { list, store, projectId } = await withTraces(t, 0);
  const ids = Array.from({ length: 1205 }, (_, i) => uuid(1000 + i));
  const observations = ids.map((id, index) => ({
    ...anObservation({ id, index, traceId: uuid(1000), startTime: { ms: T0 + index, ns: 0 } }),
    parentId: index === 0 ? null : uuid(1000 + (index === 1204 ? 1203 : 0)),
  }));
  const events = ids.map((id) => ({ id, trace_id: uuid(1000), operation: 'start', kind: 'llm' }));
  const source = nativeBatch(events, { tenant: aTenant({ projectId }) });
  await store.traces.write({ kind: 'observations', source, observations });
  const runs = await list({ traceId: uuid(1000) });
  t.same(
    runs.map(({ id }) => id),
    ids,
  );
  t.equal(
    runs.at(-1)?.dotted_order?.split('.').length,
    3,
    'the whole path of a run of a later page',
  );
  t.equal((await list({ projectName: 'p', startTime: new Date(T0) })).length, 1205);
  t.equal((await list({ traceId: uuid(1000), startTime: new Date(T0 + 1200) })).length, 5);
});

t.test('the SDK lists runs that start after a time in a trace that starts before it', async (t) => {
  const { list, store, projectId } = await withTraces(t, 0);
  const minutes = (n: number) => ({ ms: T0 + 60_000 * n, ns: 0 });
  const traces = [
    { times: [0, 1], rootEnds: 1 },
    { times: [5, 65], rootEnds: 66 },
    // By another clock: the child does not count for the end of the trace.
    { times: [6, 65], rootEnds: 7 },
    // Longer than what is looked into.
    { times: [-5, 65], rootEnds: 66 },
  ];
  for (const [trace, { times, rootEnds }] of traces.entries()) {
    const observations = times.map((time, i) =>
      anObservation({
        ...{ id: uuid(10 * trace + i), traceId: uuid(10 * trace), index: i },
        ...{ startTime: minutes(time), endTime: minutes(i === 0 ? rootEnds : time) },
        ...(i === 0 ? {} : { parentId: uuid(10 * trace) }),
      }),
    );
    const source = nativeBatch(2, { tenant: aTenant({ projectId }) });
    await store.traces.write({ kind: 'observations', source, observations });
  }
  const ids = async (more: object) =>
    (await list({ startTime: new Date(minutes(60).ms), ...more })).map(({ id }) => id);
  t.same(await ids({}), [uuid(21), uuid(11)]);
  t.same(await ids({ isRoot: true }), []);
  t.same(await ids({ traceId: uuid(30) }), [uuid(31)]);
});

t.test('the SDK lists more runs by id than a page has', async (t) => {
  const { list, call } = await withTraces(t, 50);
  const ids = Array.from({ length: 50 }, (_, n) =>
    [10, 11, 12].map((i) => uuid(10 * n + i)),
  ).flat();
  const runs = await list({ id: ids });
  t.same(
    runs.map(({ id }) => id),
    ids,
  );
  t.equal(runs[2]?.parent_run_ids?.length, 2, 'each with its path from the root');
  const { json } = await call('POST', '/runs/query', { id: ids });
  const { next } = (json as { cursors: { next: string } }).cursors;
  t.equal((await call('POST', '/runs/query', { id: ids, cursor: `${next}x` })).status, 400);
});

t.test('the SDK lists runs by the type that it reads', async (t) => {
  const { list, store, projectId } = await withTraces(t, 0);
  const events = ['generation', 'agent'].map((kind) => ({ id: kind, trace_id: 't', kind }));
  const source = nativeBatch(events, { tenant: aTenant({ projectId }) });
  const observations = (['generation', 'agent'] as const).map((kind, index) =>
    anObservation({ id: uuid(index + 1), index, traceId: uuid(1), kind }),
  );
  await store.traces.write({ kind: 'observations', source, observations });
  t.match(await list({ projectName: 'p', runType: 'llm' }), [{ id: uuid(1), run_type: 'llm' }]);
  t.match(await list({ projectName: 'p', runType: 'chain' }), [{ id: uuid(2), run_type: 'chain' }]);
});

t.test('refuses a start_time that is no time', async (t) => {
  const { call } = await withTraces(t, 1);
  const body = { start_time: 'yesterday' };
  t.match(await call('POST', '/runs/query', body), {
    status: 400,
    json: { message: /start_time/ },
  });
  const naive = { start_time: '2026-01-15T12:00:01.000123' };
  t.match(await call('POST', '/runs/query', naive), { json: { runs: { length: 3 } } });
});

t.test(
  'refuses a condition of another form, which would list other runs if it were ignored',
  async (t) => {
    const { call } = await withTraces(t, 1);
    for (const [body, message] of [
      [{ id: uuid(10) }, /^body\.id must be a list of texts/],
      [{ id: [1] }, /^body\.id must be/],
      [{ session: uuid(7) }, /^body\.session must be a list of texts/],
      [{ trace: [uuid(10)] }, /^body\.trace must be a text/],
      [{ parent_run: 5 }, /^body\.parent_run must be/],
      [{ run_type: ['llm'] }, /^body\.run_type must be/],
      [{ start_time: 0 }, /^body\.start_time must be/],
      [{ cursor: 1 }, /^body\.cursor must be/],
      [{ is_root: 'true' }, /^body\.is_root must be true or false/],
      [{ error: 1 }, /^body\.error must be/],
      [{ limit: 0 }, /^body\.limit must be a number from 1 on\.$/],
      [{ limit: '5' }, /^body\.limit must be/],
    ] as const) {
      const answer = await call('POST', '/runs/query', body);
      t.match(answer, { status: 400, json: { message } }, `${message}`);
    }
    // As the Python client and the JavaScript client send them.
    const sent = { session: null, id: null, trace: '', error: null, limit: 1000, select: ['id'] };
    t.match(await call('POST', '/runs/query', sent), { json: { runs: { length: 3 } } });
    t.match(await call('POST', '/runs/query', { id: [] }), { json: { runs: [] } });
  },
);

t.test('lists the runs of a thread, as read_thread asks for them', async (t) => {
  const { list, call } = await withTraces(t, 3);
  const thread = (id: string, more: object = {}) =>
    list({ filter: `eq(thread_id, ${JSON.stringify(id)})`, ...more });
  const ids = async (found: Promise<{ id: string }[]>) => (await found).map(({ id }) => id);
  t.same(await ids(thread('session-2', { isRoot: true })), [uuid(20)]);
  t.same(await ids(thread('session-2')), [uuid(20)], 'runs without the thread are none of it');
  t.same(await ids(thread('session-4', { isRoot: true })), []);
  t.same(await ids(thread('session-2', { traceId: uuid(10) })), []);
  t.same(await ids(thread('session-1', { id: [uuid(10), uuid(20)] })), [uuid(10)]);
  const late = new Date(T0 + 2500);
  t.same(await ids(thread('session-2', { startTime: late })), []);
  t.same(await ids(thread('session-3', { startTime: late })), [uuid(30)]);
  t.same(await ids(thread('a "quoted" \\ one')), []);
  const filters = [1, 'eq(thread_id, 5)', 'eq(thread_id, "\\x")', 'and(eq(thread_id, "a"), b)'];
  for (const filter of filters) {
    t.match(await call('POST', '/runs/query', { filter }), { status: 400 }, String(filter));
  }
});

t.test('refuses a filter, whose answer would be another one than the client expects', async (t) => {
  const { call } = await withTraces(t, 0);
  for (const name of ['filter', 'trace_filter', 'tree_filter', 'query', 'end_time']) {
    t.match(await call('POST', '/runs/query', { [name]: 'eq(name, "x")' }), {
      ...{ status: 400, json: { message: new RegExp(`^${name} is not served`) } },
    });
  }
});

t.test('the SDK reads its project by any name, and by its id', async (t) => {
  const { client, url, call, projectId } = await withTraces(t, 0);
  t.match(await client.readProject({ projectName: 'mine' }), {
    ...{ id: uuidOf(projectId), name: 'mine' },
  });
  t.match(await client.readProject({ projectId: uuidOf(projectId) }), { name: 'default' });
  await t.rejects(client.readProject({ projectId: uuid(1) }), /404/);
  const listed = [];
  for await (const project of client.listProjects()) listed.push(project.id);
  t.same(listed, [uuidOf(projectId)]);
  const whole = new Client({ apiUrl: `${url}/api/v1`, apiKey: 'k', autoBatchTracing: false });
  t.match(await whole.readProject({ projectName: 'mine' }), { name: 'mine' });
  t.match(await call('GET', '/api/v1/sessions'), { json: { sessions: [] } }, 'for other clients');
  const agent = { 'user-agent': 'langsmith-py/0.15.0' };
  t.match(await call('GET', '/api/v1/sessions?limit=1', undefined, agent), {
    ...{ json: [{ name: 'default' }] },
  });
});

t.test('ids of other forms become the same UUID each time', async (t) => {
  t.equal(uuidOf(uuid(1)), uuid(1));
  t.match(
    uuidOf('proj_a'),
    /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  );
  t.equal(uuidOf('proj_a'), uuidOf('proj_a'));
  t.not(uuidOf('proj_a'), uuidOf('proj_b'));
});

t.test('the SDK lists the oldest runs first, and no other order', async (t) => {
  const { list, call } = await withTraces(t, 25);
  const asked = { projectName: 'p', isRoot: true, order: 'asc' } as const;
  const oldest = Array.from({ length: 25 }, (_, i) => uuid(10 * (i + 1)));
  t.same(
    (await list(asked)).map(({ id }) => id),
    oldest,
  );
  t.same((await list({ ...asked, limit: 1 })).length, 1);
  t.equal((await list({ ...asked, order: 'desc' }))[0]?.id, uuid(250));
  const first = await call('POST', '/runs/query', { is_root: true, limit: 10, order: 'asc' });
  const { cursors } = first.json as { cursors: { next: string } };
  const next = { is_root: true, limit: 1, cursor: cursors.next };
  t.match(await call('POST', '/runs/query', { ...next, order: 'asc' }), {
    json: { runs: [{ id: uuid(110) }] },
  });
  t.equal((await call('POST', '/runs/query', next)).status, 400, 'a cursor of another order');
  t.match(await call('POST', '/runs/query', { order: 'up' }), {
    ...{ status: 400, json: { message: 'body.order must be asc or desc.' } },
  });
});

t.test('the SDK reads the runs of spans by the ids that it is shown', async (t) => {
  const { client, list, store, projectId } = await withTraces(t, 1);
  const traces = ['0123456789abcdef0011223344556677', '0123456789abcdef8011223344556677'];
  // As tracers with ids of 64 bits write them.
  const short = '0000000000000000fedcba9876543210';
  const [top, below] = ['aaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb'];
  for (const traceId of [...traces, short]) {
    const [root, child] = [`${traceId}:${top}`, `${traceId}:${below}`];
    await writeSpan(store, projectId, { id: root, traceId, name: `root of ${traceId}` });
    await writeSpan(store, projectId, { id: child, traceId, parentId: root, name: 'child' });
  }
  for (const [traceId, root] of [
    [traces[1] ?? '', '01234567-89ab-cdef-aaaa-aaaaaaaaaaaa'],
    [short, 'fedcba98-7654-3210-aaaa-aaaaaaaaaaaa'],
  ] as const) {
    const trace = traceId.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5');
    const runs = await list({ traceId: trace });
    t.same(
      runs.map(({ name }) => name),
      [`root of ${traceId}`, 'child'],
    );
    const [first, second] = runs;
    t.match(first, { id: root, trace_id: trace, parent_run_id: null });
    t.match(second, { parent_run_id: first?.id, trace_id: trace });
    t.match(await client.readRun(trace), { name: `root of ${traceId}` }, 'the root by its trace');
    const ids = [second?.id ?? ''];
    t.match(await list({ id: ids }), [{ name: 'child' }]);
    t.match(await list({ parentRunId: root, traceId: trace }), [{ id: second?.id }]);
  }
  t.match(await client.readRun('fedcba98-7654-3210-bbbb-bbbbbbbbbbbb'), { name: 'child' });
  const tree = await client.readRun('fedcba98-7654-3210-aaaa-aaaaaaaaaaaa', {
    loadChildRuns: true,
  });
  t.match(tree.child_runs, [{ name: 'child' }]);
  await t.rejects(client.readRun('00000000-0000-0000-bbbb-bbbbbbbbbbbb'), /404/, 'without a trace');
});

t.test(
  'finds a span among 1,000 traces of one second, whose ids begin alike, and in no further one',
  async (t) => {
    const { client, store, projectId } = await withTraces(t, 0);
    // As Datadog's tracers write them: the second, 32 zero bits, 64 random bits.
    const second = '6936c68000000000';
    const source = nativeBatch(1, { tenant: aTenant({ projectId }) });
    const spanOf = (n: number) => String(n).padStart(16, '0');
    const spans = Array.from({ length: 1001 }, (_, n) => {
      const traceId = `${second}${spanOf(n)}`;
      return anObservation({ id: `${traceId}:b${spanOf(n).slice(1)}`, traceId, name: `span ${n}` });
    });
    await store.traces.write({ kind: 'observations', source, observations: spans });
    const read = (n: number) => client.readRun(`6936c680-0000-0000-b000-${spanOf(n).slice(4)}`);
    for (const n of [1, 21, 999]) t.match(await read(n), { name: `span ${n}` });
    await t.rejects(read(1000), /404/);
  },
);

async function writeSpan(store: Store, projectId: string, given: Partial<Observation>) {
  const source = nativeBatch(1, { tenant: aTenant({ projectId }) });
  await store.traces.write({
    ...{ kind: 'observations', source },
    observations: [anObservation({ startTime: { ms: T0, ns: 0 }, ...given })],
  });
}
