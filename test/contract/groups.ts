import fc from 'fast-check';
import type { Test } from 'tap';
import type { Instant, Observation } from '../../src/model/observation.ts';
import type { Query } from '../../src/query/query.ts';
import type { GroupItem } from '../../src/read/group-pages.ts';
import { GroupPage } from '../../src/read/group-pages.ts';
import type { GroupField } from '../../src/store/groups.ts';
import type { Store, StoredTrace } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';
import type { SharesStore } from './place.ts';

const DAY = 86_400_000;
const T0 = Date.UTC(2026, 0, 15, 12);
const at = (ms: number, ns = 0): Instant => ({ ms: T0 + ms, ns });

async function write(
  store: Store,
  list: readonly Observation[],
  projectId = P,
  receivedAt = T0,
): Promise<void> {
  const observations = list.map((observation, index) => ({ ...observation, index }));
  const source = nativeBatch(list.length, { receivedAt, tenant: aTenant({ projectId }) });
  await store.traces.write({ kind: 'observations', source, observations });
}

/** A group as the reading side shows it. */
type Shown = Readonly<Record<string, unknown>>;

function shown({ value, userId, totals, isPartial }: GroupItem, by: GroupField): Shown {
  const { lastUserId, sessions, ...sums } = totals.sums;
  const own = by === 'session' ? { user: userId ?? lastUserId } : { sessions };
  return { value, ...sums, ...own, ...(isPartial ? { isPartial } : {}) };
}

type Paging = { readonly limit: number; readonly size: number; readonly budgetMs?: number };

/** All groups, page by page. */
async function groupsOf(
  store: Store,
  by: GroupField,
  query: Query,
  { limit, size, budgetMs = 1e9 }: Paging = { limit: 50, size: 512 },
  projectId = P,
): Promise<Shown[]> {
  const source = { groups: store.groups, projectId, by, query, grow() {} };
  const all: Shown[] = [];
  let first: string | undefined;
  do {
    const page = new GroupPage(source, first, budgetMs);
    let cursor: string | undefined = first;
    let found = 0;
    do {
      const { items, nextCursor } = await page.fetch(limit - found, cursor, size);
      found += items.length;
      all.push(...items.map((item) => shown(item, by)));
      cursor = nextCursor ?? undefined;
    } while (cursor !== undefined && found < limit);
    first = cursor;
  } while (first !== undefined);
  return all;
}

/** The groups that the traces of the store make, without SQL. */
async function recounted(store: Store, by: GroupField, query: Query): Promise<Shown[]> {
  const groups = new Map<string, StoredTrace[]>();
  let cursor: string | undefined;
  do {
    const filter = { limit: 100, query, ...(cursor === undefined ? {} : { cursor }) };
    const page = await store.traces.listTraces(P, filter);
    for (const trace of page.items) {
      const value = by === 'session' ? trace.sessionId : trace.userId;
      if (value !== null) groups.set(value, [...(groups.get(value) ?? []), trace]);
    }
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return [...groups].map(([value, traces]) => ({ value, ...sumsOf(traces, by) }));
}

function sumsOf(traces: readonly StoredTrace[], by: GroupField): Shown {
  const sum = (numbers: readonly (number | undefined)[]): number | null => {
    const known = numbers.filter((number) => number !== undefined);
    return known.length === 0 ? null : known.reduce((a, b) => a + b, 0);
  };
  const tokens = (kind: string) => sum(traces.map(({ usage }) => usage?.[kind]));
  const starts = traces.map(({ startTime }) => startTime ?? at(0)).sort(byTime);
  const ends = traces.map(({ startTime, endTime }) => endTime ?? startTime ?? at(0)).sort(byTime);
  const users = traces.map(({ userId }) => userId).filter((user) => user !== null);
  const sessions = new Set(traces.map(({ sessionId }) => sessionId).filter((one) => one !== null));
  return {
    traces: traces.length,
    observations: sum(traces.map(({ observationCount }) => observationCount)),
    errors: sum(traces.map(({ errorCount }) => errorCount)),
    inputTokens: tokens('input_tokens'),
    outputTokens: tokens('output_tokens'),
    totalTokens: tokens('total_tokens'),
    cost: sum(traces.map(({ cost }) => cost?.total)),
    firstTime: starts[0],
    lastTime: ends.at(-1),
    ...(by === 'session'
      ? { user: traces[0]?.userId ?? users.sort().at(-1) ?? null }
      : { sessions: sessions.size }),
  };
}

function byTime(a: Instant, b: Instant): number {
  return a.ms - b.ms || a.ns - b.ns;
}

export type OpenForGroups = SharesStore &
  ((
    t: Test,
  ) => Promise<{ readonly clock: FakeClock; readonly store: Store; finish(): Promise<void> }>);

/** Sessions and users, which are computed from their traces. */
export function groups(t: Test, open: OpenForGroups): void {
  t.test('a session has the sums of its traces', async (t) => {
    const { store } = await open(t);
    await write(store, [
      anObservation({
        ...{ traceId: 'a', id: 'a1', sessionId: 's', userId: 'u1', startTime: at(0, 5) },
        ...{ endTime: at(900, 7), usage: { input_tokens: 3, output_tokens: 4 } },
        details: { cost: { input: 1, output: 2, total: 3, source: 'sent' } },
      }),
      anObservation({
        ...{ traceId: 'a', id: 'a2', parentId: 'a1', status: 'error', startTime: at(1) },
        endTime: at(2),
      }),
      anObservation({
        ...{ traceId: 'b', id: 'b1', sessionId: 's', userId: 'u2', startTime: at(100, 9) },
        ...{ endTime: null, usage: { input_tokens: 5 } },
      }),
      anObservation({ traceId: 'c', id: 'c1', startTime: at(200), endTime: null }),
      anObservation({ traceId: 'd', id: 'd1', sessionId: 't', startTime: at(50), endTime: null }),
    ]);
    await write(store, [anObservation({ traceId: 'x', id: 'x', sessionId: 's' })], 'proj_other');
    t.same(await groupsOf(store, 'session', aQuery('')), [
      {
        ...{ value: 's', traces: 2, observations: 3, errors: 1, inputTokens: 8, outputTokens: 4 },
        ...{ totalTokens: 12, cost: 3, firstTime: at(0, 5), lastTime: at(900, 7), user: 'u2' },
      },
      {
        ...{ value: 't', traces: 1, observations: 1, errors: 0, inputTokens: null },
        ...{ outputTokens: null, totalTokens: null, cost: null, firstTime: at(50) },
        ...{ lastTime: at(50), user: null },
      },
    ]);
    t.match(await groupsOf(store, 'user', aQuery('')), [
      { value: 'u2', traces: 1, sessions: 1 },
      { value: 'u1', traces: 1, sessions: 1 },
    ]);
    const early = await groupsOf(store, 'session', aQuery('start:<2026-01-15T12:00:00.1Z'));
    t.match(early, [{ value: 't' }, { value: 's', traces: 1, user: 'u1' }]);
  });

  t.test('times before 1970 are exact to the nanosecond', async (t) => {
    const { store } = await open.shared();
    const early = { startTime: { ms: -2, ns: 999_999 }, endTime: { ms: -1, ns: 1 } };
    await write(store, [anObservation({ traceId: 'a', id: 'a', sessionId: 's', ...early })]);
    t.match(await groupsOf(store, 'session', aQuery('')), [
      { firstTime: early.startTime, lastTime: early.endTime },
    ]);
  });

  t.test('times of any year are exact to the nanosecond', async (t) => {
    const { store } = await open.shared();
    const now = Date.UTC(2026, 0, 15, 11);
    const [first, end] = [-62_167_219_200_000, 253_402_300_799_999];
    const one = (id: string, startMs: number, endMs: number | null, ns = 1) =>
      anObservation({
        ...{ traceId: id, id, sessionId: id, userId: 'all' },
        ...{ startTime: { ms: startMs, ns }, endTime: endMs === null ? null : { ms: endMs, ns } },
      });
    const zero = Date.parse('0001-01-01T00:00:00Z');
    const [low, high] = [-9_214_560_000_000, 9_214_646_399_999];
    await write(store, [
      one('zero', zero, zero + 5),
      one('earliest', first, null),
      one('long', now, end, 999_999),
      one('low', low - 1, low),
      one('high', now, high),
      one('higher', now, high + 1, 999_999),
    ]);
    const times = new Map(
      (await groupsOf(store, 'session', aQuery(''))).map(({ value, firstTime, lastTime }) => [
        value,
        [firstTime, lastTime],
      ]),
    );
    const of = (ms: number, ns = 1) => ({ ms, ns });
    t.same(times.get('zero'), [of(zero), of(zero + 5)]);
    t.same(times.get('earliest'), [of(first), of(first)]);
    t.same(times.get('long'), [of(now, 999_999), of(end, 999_999)]);
    t.same(times.get('low'), [of(low - 1), of(low)]);
    t.same(times.get('high'), [of(now), of(high)]);
    t.same(times.get('higher'), [of(now, 999_999), of(high + 1, 999_999)]);
    t.match(await groupsOf(store, 'user', aQuery('')), [
      { firstTime: of(first), lastTime: of(end, 999_999) },
    ]);
  });

  t.test('sums may exceed the integers that a number has exactly', async (t) => {
    const { store } = await open.shared();
    const most = Number.MAX_SAFE_INTEGER;
    const usage = { input_tokens: most, output_tokens: 5 };
    const owner = { sessionId: 's', userId: 'u', usage };
    await write(store, [
      anObservation({ traceId: 'a', id: 'a', ...owner }),
      anObservation({ traceId: 'b', id: 'b', ...owner }),
    ]);
    for (const by of ['session', 'user'] as const) {
      const [group] = await groupsOf(store, by, aQuery(''));
      t.match(group, { traces: 2, inputTokens: 2 * most, outputTokens: 10 });
      t.ok(Number(group?.totalTokens) >= 2 * most);
    }
  });

  t.test('a trace has sums beyond the integers that a number has exactly', async (t) => {
    const { store } = await open.shared();
    const most = Number.MAX_SAFE_INTEGER;
    const call = (id: string) =>
      anObservation({
        ...{ traceId: 'a', id, sessionId: 's', userId: 'u', usage: { input_tokens: most } },
        details: { cost: { input: null, output: null, total: most, source: 'sent' } },
      });
    await write(store, [call('a'), call('b')]);
    for (const by of ['session', 'user'] as const) {
      const [group] = await groupsOf(store, by, aQuery(''));
      t.match(group, { inputTokens: 2 * most, totalTokens: 2 * most, cost: 2 * most });
    }
    for (const text of ['cost:>10000000', `tokens:>${most}`]) {
      t.equal((await groupsOf(store, 'user', aQuery(text))).length, 1, text);
    }
  });

  t.test('sums of a trace end below 2^63', async (t) => {
    const { store } = await open.shared();
    const total = 1e22;
    const details = { cost: { input: null, output: null, total, source: 'sent' } } as const;
    await write(store, [anObservation({ traceId: 'a', id: 'a', sessionId: 's', details })]);
    const [group] = await groupsOf(store, 'session', aQuery(''));
    t.equal(group?.cost, 2 ** 63 - 1024);
  });

  t.test('sums that take a quarter of the budget of a page are partial', async (t) => {
    const { store } = await open.shared();
    const traces = Array.from({ length: 60 }, (_, i) =>
      anObservation({
        ...{ traceId: `t${i}`, id: `o${i}`, startTime: at(i), sessionId: i % 30 < 2 ? 'b' : 'a' },
      }),
    );
    await write(store, traces);
    const steps = 10;
    const slow: Store = {
      ...store,
      groups: {
        findGroups: store.groups.findGroups,
        async sumGroup(projectId, value, look) {
          const step = await store.groups.sumGroup(projectId, value, { ...look, size: steps });
          return { ...step, spentMs: 20 };
        },
      },
    };
    const paging = { limit: 50, size: 512, budgetMs: 4 * 60 };
    t.match(await groupsOf(slow, 'session', aQuery(''), paging), [
      { value: 'a', traces: 3 * steps, isPartial: true },
      { value: 'b', traces: 4 },
    ]);
    const enough = { ...paging, budgetMs: 4 * 101 };
    t.match(await groupsOf(slow, 'session', aQuery(''), enough), [
      { value: 'a', traces: 56, isPartial: undefined },
      { value: 'b', traces: 4 },
    ]);
  });

  t.test('sums are those of a recount, after any order of writes', async (t) => {
    const { store } = await open.shared();
    const written = fc.sample(someEvents(), { numRuns: 50, seed: 7 });
    for (const [i, events] of written.entries()) {
      const traced = events.map((one) => ({ ...one, traceId: `t${i % 40}` }));
      await write(store, traced);
      // A repeated delivery, and a later event of the same observation.
      if (i % 5 === 0) await write(store, traced.slice(0, 1));
      if (i % 7 === 0) await write(store, [anObservation({ traceId: `t${i % 40}`, version: '2' })]);
    }
    const texts = fc.constantFrom(
      ...['', 'has:error', '-has:error', 'model:m', 'session:s1', 'has:user', 'tokens:>3'],
      ...['start:>=2026-01-15T12:00:02Z', 'user:u1,u2 -model:m', 'start:<2026-01-15T12:00:01Z'],
    );
    const paging = fc.record({
      limit: fc.integer({ min: 1, max: 6 }),
      size: fc.integer({ min: 1, max: 70 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<GroupField>('session', 'user'),
        texts,
        paging,
        async (by, text, paging) => {
          const query = aQuery(text);
          t.same(await groupsOf(store, by, query, paging), await recounted(store, by, query));
        },
      ),
      { numRuns: 80 },
    );
  });

  t.test('sums follow what is removed', async (t) => {
    const { store, clock, finish } = await open(t);
    const [project] = await store.projects.list();
    const projectId = project?.id ?? '';
    await store.projects.update(projectId, { retentionDays: 10 });
    const begun = clock.now();
    const trace = (traceId: string, userId: string) =>
      anObservation({ traceId, id: traceId, sessionId: 's', userId });
    await write(store, [trace('a', 'u'), trace('b', 'v')], projectId, begun);
    await write(store, [trace('c', 'u'), trace('d', 'w')], projectId, begun + 5 * DAY);
    const all = (by: GroupField) => groupsOf(store, by, aQuery(''), undefined, projectId);
    clock.set(begun + 6 * DAY);
    t.match(await all('session'), [{ value: 's', traces: 4 }]);
    await store.erasures.request(
      projectId,
      { query: aQuery('user:w'), isDryRun: false },
      { actor: 'admin-token', address: null },
    );
    await finish();
    t.match(await all('session'), [{ value: 's', traces: 3 }]);
    t.same((await all('user')).map(({ value }) => value).sort(), ['u', 'v']);
    clock.set(begun + 10 * DAY + 1);
    t.match(await all('session'), [{ value: 's', traces: 1 }], 'at once, before it is removed');
    await finish();
    t.match(await all('user'), [{ value: 'u', traces: 1, sessions: 1 }]);
  });

  t.test('the root of a trace is the observation that its summary names', async (t) => {
    const { store } = await open(t);
    const error = { type: 'E', message: 'm', stacktrace: 's' };
    await write(store, [
      anObservation({ id: 'child', parentId: 'root', startTime: at(0) }),
      anObservation({ id: 'root', startTime: at(10), status: 'error', error }),
    ]);
    t.match(await store.traces.getRoot(P, 'trace-1'), { id: 'root', error });
    t.equal(await store.traces.getRoot(P, 'other'), undefined);
    t.equal(await store.traces.getRoot('proj_other', 'trace-1'), undefined);
  });
}

function someEvents(): fc.Arbitrary<Observation[]> {
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
  const time = fc.integer({ min: 0, max: 4000 }).map((ms) => at(ms, ms));
  const cost = fc.nat(99).map((total) => ({
    cost: { input: null, output: null, total, source: 'sent' as const },
  }));
  const event = fc.record({
    sessionId: maybe(fc.constantFrom('s1', 's2', 's3', 'ü \u0000 "x"')),
    userId: maybe(fc.constantFrom('u1', 'u2', 'u3')),
    startTime: maybe(time),
    endTime: maybe(time),
    status: maybe(fc.constantFrom('error' as const, 'ok' as const)),
    model: maybe(fc.constantFrom('m', 'n')),
    usage: maybe(fc.record({ input_tokens: fc.nat(3), output_tokens: fc.nat(3) })),
    details: maybe(cost),
  });
  return fc
    .array(event, { minLength: 1, maxLength: 3 })
    .map((list) =>
      list.map((fields, i) =>
        anObservation({ ...fields, id: `o${i}`, parentId: i === 0 ? null : 'o0' }),
      ),
    );
}
