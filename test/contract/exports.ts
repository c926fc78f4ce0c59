import type { Test } from 'tap';
import { NARROW_LIMITS } from '../../src/model/narrow-limits.ts';
import type { Observation } from '../../src/model/observation.ts';
import { observationJson } from '../../src/store/observation-json.ts';
import type { LinePage, Store } from '../../src/store/store.ts';
import { anObservation, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { OpenForSummaries } from './summaries.ts';

const T0 = Date.UTC(2026, 0, 15, 12);

/** A store may use some of them for itself. */
const CONTROLS = 'a\u0000\u0001\u0005b\u0001\u0006\u001f\u007f';

/** Observations with many fields, and with none. */
const MANY_FIELDS: readonly Partial<Observation>[] = [
  {
    ...{ traceId: 'd', id: 'd-1', parentId: 'd-0', kind: 'generation', status: 'error' },
    ...{ startTime: { ms: T0, ns: 1 }, endTime: { ms: T0 + 5, ns: 0 }, model: 'a "b"' },
    ...{
      sessionId: 's\u0000',
      userId: '\ud800',
      error: { type: null, message: 'c\\\n', stacktrace: null },
      operation: 'start',
    },
    ...{ external: { run_id: 'd-1' }, customFields: { 'k\\': 'v' }, ended: false },
    details: {
      ...{
        provider: 'p',
        environment: 'e',
        release: 'r',
        tags: ['t', '"'],
        tool: 'x',
        ttftMs: 1.5,
      },
      ...{ promptName: 'n', inputBytes: 3, scope: 's' },
      cost: { input: 1, output: null, total: 1_000_000_001, source: 'sent' },
      ignored: [{ path: 'a.b', reason: 'not a number' }],
      attachments: [{ name: 'a "b"', contentType: 'image/png', bytes: 3, sha256: 'ab'.repeat(32) }],
    },
  },
  { traceId: 'd', id: `d-${'2'.repeat(100)}`, details: { promptVersion: '2' } },
  { traceId: 'd', id: 'd-4', kind: 'tool', name: 'get "weather"' },
  { traceId: 'd', id: 'd-5', kind: 'tool', name: 'run', details: { tool: 'sent' } },
  { traceId: 'd', id: 'd-6', kind: 'span', name: 'no tool' },
  {
    ...{ traceId: 'd'.repeat(32), id: `${'d'.repeat(32)}:${'e'.repeat(16)}`, name: null },
    ...{ parentId: `${'d'.repeat(32)}:${'f'.repeat(16)}` },
    external: { trace_id: 'd'.repeat(32), span_id: 'e'.repeat(16), parent_span_id: 'f'.repeat(16) },
  },
];

async function write(store: Store, list: readonly Partial<Observation>[]): Promise<void> {
  const observations = list.map((more, index) => ({ ...anObservation(more), index }));
  const source = nativeBatch(list.length, { receivedAt: T0 });
  await store.traces.write({ kind: 'observations', source, observations });
}

/** Three traces of five observations each, which arrive in another order than they start. */
async function writeTraces(store: Store): Promise<void> {
  const all = ['a', 'b', 'c'].flatMap((traceId, trace) =>
    [3, 1, 4, 0, 2].map((i) => ({
      ...{ traceId, id: `${traceId}-${i}` },
      startTime: { ms: T0 + trace * 1000 + i, ns: i },
    })),
  );
  await write(store, all);
}

/** The lines of a page, each without its end. */
function linesOf({ items, text }: LinePage): string[] {
  return items.map(({ end }, i) => {
    const line = Buffer.from(text.subarray(items[i - 1]?.end ?? 0, end)).toString();
    if (!line.endsWith('\n')) throw new Error(`no line: ${line}`);
    return line.slice(0, -1);
  });
}

/** The rules for what exports read. */
export function exports(t: Test, open: OpenForSummaries): void {
  t.test('lists the observations of several traces in the order of the traces', async (t) => {
    const { store } = await open(t);
    await writeTraces(store);
    const page = await store.traces.listObservationsOf(P, ['c', 'none', 'a'], 100);
    const ids = page.items.map(({ id }) => id);
    t.same(ids, [...[0, 1, 2, 3, 4].map((i) => `c-${i}`), ...[0, 1, 2, 3, 4].map((i) => `a-${i}`)]);
    t.equal(page.nextCursor, null);
    const [first] = page.items;
    const [listed] = (await store.traces.listObservations(P, 'c', { limit: 1 })).items;
    t.same(first, listed);
    t.same((await store.traces.listObservationsOf(P, [], 5)).items, []);
    t.same((await store.traces.listObservationsOf('proj_other', ['a'], 5)).items, []);
  });

  t.test('lists the same observations with the events of each', async (t) => {
    const { store } = await open(t);
    await writeTraces(store);
    const ids = ['c', 'none', 'a'];
    const page = await store.traces.listSourcesOf(P, ids, 100);
    const plain = await store.traces.listObservationsOf(P, ids, 100);
    t.same(
      page.items.map(({ observation }) => observation),
      plain.items,
    );
    const own = await store.traces.listSources(P, 'c', { limit: 100 });
    t.same(page.items.slice(0, 5), own.items);
    t.ok(page.items.every(({ events }) => events.length === 1));
    const part = await store.traces.listSourcesOf(P, ids, 7);
    const last = part.items.at(-1)?.observation;
    t.same([part.items.length, last?.traceId, part.nextCursor], [7, 'a', part.cursorAfter(6)]);
    const rest = await store.traces.listSources(P, 'a', {
      ...{ limit: 100, cursor: part.nextCursor ?? '' },
    });
    t.same([...part.items, ...rest.items], page.items);
    t.same((await store.traces.listSourcesOf('proj_other', ['a'], 5)).items, []);
  });

  t.test('a page of several traces goes on in the trace of its last item', async (t) => {
    const { store } = await open.shared();
    await writeTraces(store);
    for (const limit of [1, 4, 5, 6, 9]) {
      const page = await store.traces.listObservationsOf(P, ['b', 'a'], limit);
      t.equal(page.items.length, limit);
      const last = page.items.at(-1);
      const rest = await store.traces.listObservations(P, last?.traceId ?? '', {
        ...{ limit: 100, cursor: page.nextCursor ?? '' },
      });
      const ids = [...page.items, ...rest.items].map(({ id }) => id);
      const all = [
        ...[0, 1, 2, 3, 4].map((i) => `b-${i}`),
        ...[0, 1, 2, 3, 4].map((i) => `a-${i}`),
      ];
      t.same(ids, all.slice(0, limit <= 5 ? 5 : 10), `${limit}`);
      t.equal(page.cursorAfter(limit - 1), page.nextCursor);
    }
    t.equal((await store.traces.listObservationsOf(P, ['b', 'a'], 10)).nextCursor, null);
  });

  t.test('the tool is the sent one, else the name of an observation of kind tool', async (t) => {
    const { store } = await open(t);
    await write(store, MANY_FIELDS);
    const { items } = await store.traces.listObservations(P, 'd', { limit: 100 });
    const shown = items.map((one) => JSON.parse(observationJson(one, undefined)));
    const tools = new Map(shown.map(({ id, tool }) => [id, tool]));
    const ids = ['d-1', 'd-4', 'd-5', 'd-6'];
    t.same(
      ids.map((id) => tools.get(id)),
      ['x', 'get "weather"', 'sent', null],
    );
  });

  t.test('the JSON of observations is that of their rows', async (t) => {
    const { store } = await open(t);
    await writeTraces(store);
    const long = 'ü'.repeat(NARROW_LIMITS.TEXT);
    await write(store, [
      { traceId: 'd', id: 'd-0', name: long, customFields: { a: 'b' }, usage: { input_tokens: 1 } },
      ...MANY_FIELDS,
      { traceId: 'e', id: CONTROLS, name: CONTROLS, model: `${CONTROLS}\\`, parentId: CONTROLS },
      { traceId: 'e', id: 'e'.repeat(1000), customFields: { a: CONTROLS }, version: '7' },
    ]);
    const { listLinesOf } = store.traces;
    if (listLinesOf === undefined) return;
    const ids = ['c', 'none', 'd', 'a', 'd'.repeat(32), 'e'];
    const rows = await store.traces.listObservationsOf(P, ids, 100);
    const lines = await listLinesOf(P, ids, { limit: 100 });
    t.same(
      linesOf(lines),
      rows.items.map((row) => observationJson(row, undefined)),
    );
    t.same(
      lines.items.map(({ traceId }) => traceId),
      rows.items.map(({ traceId }) => traceId),
    );
    t.equal(lines.nextCursor, null);
    const some = await listLinesOf(P, ids, { limit: 3 });
    const cursor = some.nextCursor ?? '';
    t.same([some.items.length, cursor], [3, some.cursorAfter(2)]);
    const rest = await listLinesOf(P, ids, { limit: 100, cursor });
    t.same([...linesOf(some), ...linesOf(rest)], linesOf(lines));
    t.same((await listLinesOf('proj_other', ids, { limit: 100 })).items, []);
  });

  t.test('finds the cursors behind a row', async (t) => {
    const { store } = await open(t);
    await writeTraces(store);
    const { items } = await store.traces.listTraces(P, { limit: 10 });
    t.same(
      items.map(({ id }) => id),
      ['c', 'b', 'a'],
    );
    const cursors = await store.traces.rowCursors(P, 'c');
    const behind = await store.traces.listTraces(P, { limit: 10, cursor: cursors?.trace ?? '' });
    t.same([behind.items.map(({ id }) => id), cursors?.observation], [['b', 'a'], null]);
    const inTrace = await store.traces.rowCursors(P, 'b', 'b-2');
    const rest = await store.traces.listObservations(P, 'b', {
      ...{ limit: 10, cursor: inTrace?.observation ?? '' },
    });
    t.same(
      rest.items.map(({ id }) => id),
      ['b-3', 'b-4'],
    );
    t.equal(await store.traces.rowCursors(P, 'none'), undefined);
    t.equal(await store.traces.rowCursors(P, 'b', 'none'), undefined);
    t.equal(await store.traces.rowCursors('proj_other', 'b'), undefined);
  });
}
