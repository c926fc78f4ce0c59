import type { Client } from 'langsmith/client';
import type { Test } from 'tap';
import t from 'tap';
import type { Observation } from '../../../../src/model/observation.ts';
import { uuidOf } from '../../../../src/read/clients/uuid.ts';
import { anObservation, aTenant, nativeBatch } from '../../../helper/batches.ts';
import { T0, uuid, withTraces } from '../../../helper/client-runs.ts';

type Asked = Omit<Parameters<Client['runs']['query']>[0], 'project_ids'>;

/** The traces of `withTraces`, and the list of the runs that the SDK finds from their start on. */
async function scene(t: Test, count: number) {
  const { client, projectId, store, ...listener } = await withTraces(t, count);
  const own = uuidOf(projectId);
  const query = async (asked: Parameters<Client['runs']['query']>[0]) => {
    const found = [];
    for await (const run of client.runs.query({ project_ids: [own], ...asked })) found.push(run);
    return found;
  };
  const since = new Date(T0).toISOString();
  const ids = async (asked: Asked) =>
    (await query({ min_start_time: since, ...asked })).map(({ id }) => id);
  const write = (given: Partial<Observation>) =>
    store.traces.write({
      kind: 'observations',
      source: nativeBatch(1, { tenant: aTenant({ projectId }), receivedAt: Date.now() }),
      observations: [anObservation(given)],
    });
  return { ...listener, client, own, query, ids, since, write };
}

t.test('the SDK retrieves what it selects of a run', async (t) => {
  const { client, own } = await scene(t, 1);
  const retrieve = (n: number, selects?: Parameters<Client['runs']['retrieve']>[1]['selects']) =>
    client.runs.retrieve(uuid(n), {
      project_id: own,
      ...(selects === undefined ? {} : { selects }),
    });
  t.same(await retrieve(10), { id: uuid(10) }, 'the id by default');
  t.same(await retrieve(11, ['NAME', 'RUN_TYPE', 'STATUS', 'IS_ROOT', 'PARENT_RUN_IDS']), {
    ...{ name: 'c1', run_type: 'LLM', status: 'SUCCESS', is_root: false },
    parent_run_ids: [uuid(10)],
  });
  t.same(await retrieve(10, ['ID', 'INPUTS', 'OUTPUTS', 'EXTRA', 'METADATA', 'EVENTS']), {
    ...{ id: uuid(10), inputs: { n: 1, i: 0 }, outputs: { output: [0] }, events: [] },
    ...{ metadata: { i: 0 }, extra: { metadata: { i: 0 } } },
  });
  t.same(await retrieve(10, ['PROJECT_ID', 'TRACE_ID', 'THREAD_ID', 'START_TIME']), {
    ...{ project_id: own, trace_id: uuid(10), thread_id: 'session-1' },
    start_time: '2026-01-15T12:00:01.000123Z',
  });
  t.match(await retrieve(12, ['STATUS', 'ERROR']), { status: 'ERROR', error: 'boom' });
  t.same(await retrieve(10, ['SHARE_URL']), {}, 'no run has it');
  await t.rejects(retrieve(99), /404/);
  await t.rejects(client.runs.retrieve(uuid(10), { project_id: uuid(7) }), /404/);
});

t.test('the SDK walks the pages of a query, and each run is there once', async (t) => {
  const { ids } = await scene(t, 25);
  const all = await ids({});
  t.equal(all.length, 75);
  t.same(all.slice(0, 3), [uuid(250), uuid(251), uuid(252)], 'the newest trace first');
  t.same(await ids({ page_size: 4 }), all);
  t.same(await ids({ page_size: 1000 }), all);
  t.same(
    await ids({ page_size: 7, is_root: true }),
    [...all].filter((_, i) => i % 3 === 0),
  );
  t.same(await ids({ page_size: 2, trace_id: uuid(20) }), [uuid(20), uuid(21), uuid(22)]);
  t.same(await ids({ page_size: 1, ids: [uuid(11), uuid(999), uuid(21)] }), [uuid(11), uuid(21)]);
});

t.test('the SDK lists runs by conditions, of which each holds', async (t) => {
  const { ids, query, since } = await scene(t, 3);
  t.same(await ids({ has_error: true }), [uuid(32), uuid(22), uuid(12)]);
  t.equal((await ids({ has_error: false })).length, 6);
  t.same(await ids({ run_type: 'CHAIN' }), [uuid(30), uuid(20), uuid(10)]);
  t.same(await ids({ run_type: 'LLM', is_root: true }), []);
  t.equal((await ids({ is_root: false })).length, 6);
  t.same(await ids({ filter: 'eq(thread_id, "session-2")' }), [uuid(20)]);
  const at = (ms: number) => new Date(T0 + ms).toISOString();
  t.same(await ids({ min_start_time: at(2001) }), [
    uuid(30),
    uuid(31),
    uuid(32),
    uuid(21),
    uuid(22),
  ]);
  t.same(await ids({ max_start_time: at(1002) }), [uuid(10), uuid(11)]);
  const nanos = (n: number) => `${at(2000).slice(0, -1)}${n}Z`;
  const [from, to] = [nanos(123_456), nanos(123_457)];
  t.same(await ids({ min_start_time: from, max_start_time: to }), [uuid(20)], 'to the nanosecond');
  t.same(await ids({ min_start_time: to, max_start_time: at(2001) }), []);
  t.same(await query({ project_ids: [uuid(7)], min_start_time: since }), [], 'another project');
});

t.test('without a time, runs of the last day are listed, on every page', async (t) => {
  const { query, write } = await scene(t, 1);
  const hours = (n: number) => ({ ms: Date.now() - n * 3_600_000, ns: 0 });
  for (const [n, startTime] of [hours(1), hours(2), hours(23), hours(25)].entries()) {
    await write({ id: uuid(n), traceId: uuid(n), startTime });
  }
  const found = await query({ page_size: 1 });
  t.same(
    found.map(({ id }) => id),
    [uuid(0), uuid(1), uuid(2)],
  );
});

t.test('refuses what it would ignore', async (t) => {
  const { call } = await scene(t, 1);
  const path = '/api/v2/runs/query';
  for (const [body, message] of [
    [{ tree_filter: 'eq(name, "x")' }, /^"tree_filter" is not served here/],
    [{ filter: 'eq(name, "x")' }, /^filter is not served here/],
    [{ reference_dataset_id: uuid(1) }, /^"reference_dataset_id" is not served/],
    [{ is_root: 'true' }, /is_root must be true or false/],
    [{ ids: uuid(1) }, /ids must be a list/],
    [{ ids: [] }, /ids must be a list/],
    [{ ids: [1] }, /ids must be a list/],
    [{ project_ids: 'p' }, /project_ids must be a list/],
    [{ page_size: 0 }, /page_size must be a whole number from 1 to 1000/],
    [{ page_size: 1.5 }, /page_size/],
    [{ page_size: 1001 }, /page_size/],
    [{ run_type: 1 }, /run_type must be a text/],
    [{ min_start_time: 'yesterday' }, /min_start_time must be an ISO 8601/],
    [{ include_subtree_usage: true }, /include_subtree_usage must be false/],
    [{ selects: ['ID', 'name'] }, /selects has the unknown property "name"/],
    [{ cursor: 'x' }, /The cursor is not from this list/],
    [[], /must be an object/],
  ] as const) {
    t.match(await call('POST', path, body), { status: 400, json: { message } }, `${message}`);
  }
  t.match(await call('GET', `/v2/runs/${uuid(10)}?selects=NOTHING`), { status: 400 });
  const body = { tree_filter: null, include_subtree_usage: false };
  t.match(await call('POST', path, body), { status: 200, json: { items: [], next_cursor: null } });
});
