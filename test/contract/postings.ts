import fc from 'fast-check';
import type { Test } from 'tap';
import type { Observation } from '../../src/model/observation.ts';
import { MAX_MERGED } from '../../src/store/plan/plan.ts';
import { MAX_TERMS } from '../../src/store/rows/trace-terms.ts';
import { MAX_SUMMARIZED } from '../../src/store/rows/written-trace.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';
import type { RecordingMetrics } from '../helper/settings.ts';
import type { TermTables } from '../helper/term-tables.ts';

export type OpenForPostings = (t: Test) => Promise<{
  readonly clock: FakeClock;
  readonly store: Store;
  readonly metrics: RecordingMetrics;
  finish(): Promise<void>;
  reopen(how?: 'close' | 'crash'): Promise<Store>;
  termTables(): Promise<TermTables>;
  forgetTerms(): Promise<void>;
}>;

const T0 = Date.UTC(2026, 0, 15, 12);
const at = (ms: number) => ({ ms: T0 + ms, ns: 0 });

async function write(
  store: Store,
  list: readonly Observation[],
  {
    projectId = P,
    receivedAt = T0,
    id,
  }: { projectId?: string; receivedAt?: number; id?: string } = {},
): Promise<void> {
  const observations = list.map((observation, index) => ({ ...observation, index }));
  const about = { receivedAt, tenant: aTenant({ projectId }), ...(id === undefined ? {} : { id }) };
  const source = nativeBatch(list.length, about);
  await store.traces.write({ kind: 'observations', source, observations });
}

/** The rules for the index of terms. */
export function postings(t: Test, open: OpenForPostings): void {
  t.test('a value that the last observation loses loses its posting', async (t) => {
    const { store, termTables } = await open(t);
    const one = (id: string, model: string, version: string) =>
      anObservation({ id, model, version, startTime: at(0), endTime: at(1) });
    await write(store, [one('a', 'm1', '1'), one('b', 'm1', '1')]);
    const { length } = (await termTables()).posted;
    await write(store, [one('a', 'm2', '2')]);
    t.equal((await termTables()).posted.length, length + 1, 'another one has it');
    await write(store, [one('b', 'm2', '2')]);
    const tables = await termTables();
    t.equal(tables.posted.length, length);
    t.same(tables.posted, tables.recounted);
  });

  t.test('the postings of a trace move with its time', async (t) => {
    const { store, termTables } = await open(t);
    await write(store, [anObservation({ id: 'late', startTime: at(500), parentId: 'root' })]);
    await write(store, [anObservation({ id: 'root', startTime: at(100), endTime: at(600) })]);
    const { posted, recounted } = await termTables();
    t.ok(posted.length > 0);
    t.ok(posted.every((posting) => posting.includes(` ${T0 + 100} 0 `)));
    t.same(posted, recounted);
  });

  t.test(`of more than ${MAX_TERMS} terms the largest field is left out`, async (t) => {
    const { store, metrics, termTables } = await open(t);
    const leftOut = () => metrics.value('tracectl_unindexed_terms_total');
    const some = (traceId: string, count: number) =>
      Array.from({ length: count }, (_, i) =>
        anObservation({ traceId, id: `o${i}`, name: `n${i}`, parentId: i === 0 ? null : 'o0' }),
      );
    await write(store, some('base', 1));
    const { length } = (await termTables()).posted;
    await write(store, some('full', MAX_TERMS - length + 1));
    t.equal((await termTables()).posted.length, length + MAX_TERMS);
    t.equal(leftOut(), 0);
    await write(store, some('over', MAX_TERMS - length + 2));
    const { posted, recounted } = await termTables();
    t.equal(posted.length, length + MAX_TERMS + length, 'an overflow term for all names of spans');
    t.equal(leftOut(), MAX_TERMS - length + 2);
    t.same(posted, recounted);
  });

  t.test(
    `a trace of more than ${MAX_SUMMARIZED} gets its postings in the background`,
    async (t) => {
      const { store, finish, termTables } = await open(t);
      const one = (i: number, model: string) =>
        anObservation({ id: `o${i}`, parentId: i === 0 ? null : 'o0', model, startTime: at(i) });
      const all = Array.from({ length: MAX_SUMMARIZED }, (_, i) => one(i, 'm'));
      await write(store, all);
      const before = await termTables();
      t.same(before.posted, before.recounted);
      await write(store, [one(MAX_SUMMARIZED, 'n')]);
      await finish();
      const after = await termTables();
      t.equal(after.posted.length, before.posted.length + 1);
      t.same(after.posted, after.recounted);
    },
  );

  t.test('traces of an earlier version get postings in the background', async (t) => {
    const { store, metrics, finish, reopen, termTables, forgetTerms } = await open(t);
    const known = ['a', 'b'].map((traceId) => anObservation({ traceId, model: 'm' }));
    await write(store, known);
    await finish();
    await forgetTerms();
    await write(store, [anObservation({ traceId: 'new', model: 'm' })]);
    const found = async (of: Store) => {
      const query = aQuery('model:m', T0);
      return (await of.traces.listTraces(P, { limit: 9, query })).items.map(({ id }) => id).sort();
    };
    t.same(await found(store), ['a', 'b', 'new'], 'readable before that');
    t.equal(await metrics.scraped('tracectl_store_traces_without_terms'), 2);
    const after = await reopen('close');
    await finish();
    t.equal(await metrics.scraped('tracectl_store_traces_without_terms'), 0);
    const { posted, recounted } = await termTables();
    t.same(posted, recounted);
    t.same(await found(after), ['a', 'b', 'new']);
  });

  t.test('frequent terms are intersected, and many values of a term are found', async (t) => {
    const { store } = await open(t);
    const count = 150;
    const model = (i: number) => `m${i % 3}`;
    await write(
      store,
      Array.from({ length: count }, (_, i) =>
        anObservation({
          ...{ traceId: `t${i}`, id: `o${i}`, model: model(i), startTime: at(i) },
          ...{ kind: i % 2 === 0 ? 'llm' : 'tool', customFields: { even: String(i % 2 === 0) } },
        }),
      ),
    );
    const find = async (text: string) => {
      const filter = { limit: count, query: aQuery(text, T0), size: 1000 };
      return (await store.traces.listTraces(P, filter)).items.map(({ id }) => id);
    };
    const expected = (holds: (i: number) => boolean) =>
      Array.from({ length: count }, (_, i) => count - 1 - i)
        .filter(holds)
        .map((i) => `t${i}`);
    const models = 'model:m0,m1,m2 kind:llm,tool';
    t.same(
      await find(models),
      expected(() => true),
    );
    t.same(
      await find(`${models} custom.even:true`),
      expected((i) => i % 2 === 0),
    );
    t.same(
      await find('model:m0,m1 kind:llm,tool -kind:tool'),
      expected((i) => i % 2 === 0 && i % 3 < 2),
    );
    for (const values of [MAX_MERGED, MAX_MERGED + 1]) {
      const list = ['m1', ...Array.from({ length: values - 1 }, (_, i) => `none${i}`)];
      t.same(
        await find(`model:${list.join(',')}`),
        expected((i) => i % 3 === 1),
        `${values}`,
      );
    }
    t.same(await find('model:none'), []);
    const none = { limit: 9, size: 10, query: aQuery('model:none kind:llm', T0) };
    const answered = { items: [], nextCursor: null, searchedTo: null };
    t.match(await store.traces.listTraces(P, none), answered, 'at once');
  });

  t.test('postings go with their traces', async (t) => {
    const { store, clock, finish, termTables } = await open(t);
    const project = await store.projects.create('short');
    const { id: projectId } = project;
    await write(store, [anObservation({ traceId: 'gone' })], {
      projectId,
      receivedAt: clock.now(),
    });
    await write(store, [anObservation({ traceId: 'kept' })], { receivedAt: clock.now() });
    const { length } = (await termTables()).posted;
    await store.projects.delete(projectId);
    await finish();
    const tables = await termTables();
    t.equal(tables.posted.length, length / 2);
    t.same(tables.posted, tables.recounted);
  });

  t.test('any sequence of writes leaves the postings that a recount gives', async (t) => {
    const { store, termTables } = await open(t);
    const ids = ['a', 'b', 'c', 'd'];
    const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
    const observation = fc
      .record({
        id: fc.constantFrom(...ids),
        traceId: fc.constantFrom('t1', 't2', null),
        parentId: maybe(fc.constantFrom(...ids)),
        name: maybe(fc.constantFrom('x', 'y')),
        kind: maybe(fc.constantFrom('tool' as const, 'llm' as const)),
        status: maybe(fc.constantFrom('ok' as const, 'error' as const)),
        model: maybe(fc.constantFrom('m', 'n')),
        sessionId: maybe(fc.constantFrom('s', 's2')),
        error: maybe(fc.constant({ type: 'E', message: null, stacktrace: null })),
        customFields: maybe(fc.constantFrom({ k: 'v' }, { k: 'w', l: 'v' })),
        details: maybe(fc.constantFrom({ tags: ['x'] }, { tool: 'h' }, { provider: 'p' })),
        startTime: maybe(fc.integer({ min: 0, max: 3 }).map((ms) => at(ms))),
        version: fc.constantFrom('0', '1', '2'),
      })
      .map((fields) => anObservation(fields));
    const batch = fc.array(observation, { minLength: 1, maxLength: 4 });
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { minLength: 1, maxLength: 6 }), async (batches) => {
        const projectId = `proj_${run++}`;
        for (const [i, list] of batches.entries()) {
          const about = { projectId, receivedAt: T0 + i };
          await write(store, list, about);
          // A batch may be written again.
          if (i % 2 === 1) await write(store, list, about);
        }
        const { posted, recounted } = await termTables();
        t.same(posted, recounted);
      }),
      { numRuns: 40 },
    );
  });
}
