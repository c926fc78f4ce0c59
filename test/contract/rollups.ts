import fc from 'fast-check';
import type { Test } from 'tap';
import type { Observation } from '../../src/model/observation.ts';
import { MAX_VALUES } from '../../src/store/rollups/fields.ts';
import { DAY, HOUR } from '../../src/store/rollups/fold.ts';
import type { Hours } from '../../src/store/rollups/reading.ts';
import { byUse } from '../../src/store/rollups/reading.ts';
import { MAX_SUMMARIZED } from '../../src/store/rows/written-trace.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';
import { pointsOf } from '../helper/stats-points.ts';
import { recount, rollups } from './rollup-oracle.ts';

type OpenForRollups = (t: Test) => Promise<{
  readonly clock: FakeClock;
  readonly store: Store;
  finish(): Promise<void>;
  reopen(how?: 'close' | 'crash'): Promise<Store>;
}>;

const HOUR_MS = 3_600_000;
const T0 = Date.UTC(2026, 0, 15, 12);
const FIRST_HOUR = T0 / HOUR_MS;
/** Two days around the traces of the tests. */
const HOURS = { from: FIRST_HOUR - 24, to: FIRST_HOUR + 24 };
const at = (ms: number) => ({ ms: T0 + ms, ns: 0 });

async function write(store: Store, list: readonly Observation[], project = P): Promise<void> {
  const observations = list.map((observation, index) => ({ ...observation, index }));
  const tenant = aTenant({ projectId: project });
  const source = nativeBatch(list.length, { receivedAt: T0, tenant });
  await store.traces.write({ kind: 'observations', source, observations });
}

/** Rollups equal a recount, by hour and by day, before and after the changes are added to the rows. */
async function equalRecount(
  t: Test,
  store: Store,
  finish: () => Promise<void>,
  message = 'rollups equal a recount',
): Promise<void> {
  const expected = await recount(store, P, HOUR);
  t.same(await rollups(store, P, HOURS, HOUR), expected, `${message}, as changes`);
  await finish();
  t.same(await rollups(store, P, HOURS, HOUR), expected, `${message}, by hour`);
  t.same(await rollups(store, P, HOURS, DAY), await recount(store, P, DAY), `${message}, by day`);
}

/** Rollups: the sums of traces by hour and by day. */
export function rollupRules(t: Test, open: OpenForRollups): void {
  t.test('the cost of a call counts for its model below a parent with its tokens', async (t) => {
    const { store, finish } = await open(t);
    const cost = { input: null, output: null, total: 30, source: 'sent' } as const;
    await write(store, [
      anObservation({
        ...{ id: 'chain', model: 'outer', startTime: at(0) },
        usage: { input_tokens: 100, output_tokens: 0 },
      }),
      anObservation({
        ...{ id: 'call', parentId: 'chain', model: 'inner', startTime: at(1), details: { cost } },
        usage: { input_tokens: 90, output_tokens: 0 },
      }),
    ]);
    const asked = { values: null, hours: HOURS, step: HOUR } as const;
    const all = await store.rollups.stats(P, { ...asked, field: 'all', isGrouped: false });
    t.match(pointsOf(all.points), [{ numbers: [1, 2, 0, 100, 0, 0, 30] }]);
    const models = await store.rollups.stats(P, { ...asked, field: 'model', isGrouped: true });
    const byModel = pointsOf(models.points).map(({ key, numbers }) => [key, ...numbers]);
    t.same(byModel.sort(), [
      ['inner', 1, 1, 0, 0, 0, 0, 30],
      ['outer', 1, 1, 0, 100, 0, 0, 0],
    ]);
    await equalRecount(t, store, finish);
  });

  t.test('models have the tokens of the trace, kind by kind', async (t) => {
    const { store, finish } = await open(t);
    const one = (id: string, parentId: string | null, usage: Observation['usage']) =>
      anObservation({ id, parentId, traceId: 'T', model: id, startTime: at(0), usage });
    await write(store, [
      one('outer', null, { input_tokens: 100, output_tokens: 0, cached_tokens: 7 }),
      one('inner', 'outer', { input_tokens: 50, output_tokens: 40 }),
      one('summed', null, { total_tokens: 90 }),
      one('split', 'summed', { input_tokens: 40, output_tokens: 30 }),
    ]);
    const asked = { values: null, hours: HOURS, step: HOUR } as const;
    const all = await store.rollups.stats(P, { ...asked, field: 'all', isGrouped: false });
    t.match(pointsOf(all.points), [{ numbers: [1, 4, 0, 140, 70, 7, 0] }]);
    const models = await store.rollups.stats(P, { ...asked, field: 'model', isGrouped: true });
    const byModel = pointsOf(models.points).map(({ key, numbers }) => [key, ...numbers]);
    t.same(byModel.sort(), [
      ['inner', 1, 1, 0, 0, 40, 0, 0],
      ['outer', 1, 1, 0, 100, 0, 7, 0],
      ['split', 1, 1, 0, 40, 30, 0, 0],
      ['summed', 1, 1, 0, 0, 0, 0, 0],
    ]);
    await equalRecount(t, store, finish);
  });

  t.test('a trace is counted for each of its values', async (t) => {
    const { store, finish } = await open(t);
    const cost = { input: 1, output: 2, total: 3, source: 'sent' } as const;
    await write(store, [
      anObservation({
        ...{ id: 'root', name: 'top', kind: 'chain', sessionId: 's', userId: 'u' },
        ...{ startTime: at(0), endTime: at(1000), details: { environment: 'prod' } },
      }),
      anObservation({
        ...{ id: 'call', parentId: 'root', kind: 'generation', model: 'm', status: 'error' },
        ...{ startTime: at(100), endTime: at(300), details: { cost } },
        usage: { input_tokens: 30, output_tokens: 4, cached_tokens: 5 },
      }),
      anObservation({
        ...{ id: 'search', parentId: 'root', kind: 'tool', name: 'web', model: null },
        ...{ startTime: at(0), endTime: at(1) },
      }),
    ]);
    const stats = async (field: 'all' | 'user' | 'model' | 'tool' | 'status') =>
      pointsOf(
        (
          await store.rollups.stats(P, {
            ...{ field, values: null, isGrouped: field !== 'all', hours: HOURS, step: HOUR },
          })
        ).points,
      );
    const whole = [1, 3, 1, 30, 4, 5, 3];
    const time = T0;
    t.match(await stats('all'), [{ key: null, time, numbers: whole }]);
    t.match(await stats('user'), [{ key: 'u', time, numbers: whole }]);
    t.match(await stats('status'), [{ key: 'success', time, numbers: whole }]);
    t.match(await stats('model'), [{ key: 'm', time, numbers: [1, 1, 1, 30, 4, 5, 3] }]);
    t.match(await stats('tool'), [{ key: 'web', time, numbers: [1, 1, 0, 0, 0, 0, 0] }]);
    const [point] = await stats('model');
    const median = point?.latencies[0] ?? 0;
    t.ok(Math.abs(median - 200) <= 10, `the latency of the model is about 200 ms: ${median}`);
    await equalRecount(t, store, finish);
  });

  t.test('a facet has the values that begin with a text, with their traces', async (t) => {
    const { store, finish } = await open(t);
    const users = ['anna', 'anna', 'ann', 'bert', 'Ann', 'a\u0000', '\u{10ffff}'];
    for (const [i, userId] of users.entries()) {
      await write(store, [anObservation({ traceId: `t${i}`, id: `o${i}`, userId })]);
    }
    const facet = async (prefix: string) => {
      const asked = { field: 'user', hours: HOURS, prefix } as const;
      const { values } = await store.rollups.facet(P, asked);
      return Object.fromEntries(values);
    };
    for (const when of ['as changes', 'in rows']) {
      t.same(await facet('ann'), { anna: 2, ann: 1 }, when);
      t.same(await facet('a\u0000'), { 'a\u0000': 1 }, when);
      t.same(await facet('\u{10ffff}'), { '\u{10ffff}': 1 }, when);
      t.equal(Object.keys(await facet('')).length, 6, when);
      await finish();
    }
  });

  t.test(
    'a facet has the most used values, with those that changes bring among them',
    async (t) => {
      const { store, finish } = await open(t);
      const writeUsers = async (...users: string[]) => {
        for (const userId of users) {
          const id = `${traces++}`;
          await write(store, [anObservation({ traceId: id, id, userId })]);
        }
      };
      let traces = 0;
      const facet = async (most: number, prefix = '') => {
        const asked = { field: 'user', hours: HOURS, prefix, most } as const;
        const { values, left } = await store.rollups.facet(P, asked);
        return { values: [...values].sort(byUse), left };
      };
      await writeUsers('a', 'a', 'a', 'b', 'b', 'c', 'x\u0000');
      await finish();
      t.same(await facet(3), { values: Object.entries({ a: 3, b: 2, c: 1 }), left: 1 });
      await writeUsers('c', 'c', 'c', 'd', 'x\u0000');
      for (const when of ['as changes', 'in rows']) {
        t.same(await facet(1), { values: Object.entries({ c: 4 }), left: 4 }, when);
        t.same(await facet(2), { values: Object.entries({ c: 4, a: 3 }), left: 3 }, when);
        t.same(await facet(3), { values: Object.entries({ c: 4, a: 3, b: 2 }), left: 2 }, when);
        t.same(await facet(5), { values: [...(await facet(4)).values, ['d', 1]], left: 0 }, when);
        t.same(await facet(1, 'x'), { values: [['x\u0000', 2]], left: 0 }, when);
        await finish();
      }
    },
  );

  t.test('a value that is asked for twice counts once', async (t) => {
    const { store, finish } = await open(t);
    for (const [i, userId] of [...'aabcdefghijklmno'].entries()) {
      const id = `${i}`;
      await write(store, [anObservation({ traceId: id, id, userId })]);
    }
    await finish();
    for (const step of [HOUR, DAY]) {
      const asked = { field: 'user', isGrouped: true, hours: HOURS, step } as const;
      const { points } = await store.rollups.stats(P, { ...asked, values: ['a', 'b', 'a'] });
      const traces = pointsOf(points).map(({ key, numbers }) => [key, numbers[0]]);
      t.same(Object.fromEntries(traces), { a: 2, b: 1 });
    }
  });

  t.test('any order, any split and any replay of events equals a recount', async (t) => {
    const { store, finish } = await open(t);
    const ids = ['a', 'b', 'c', 'd'];
    let run = 0;
    await fc.assert(
      fc.asyncProperty(someWrites(ids), async ({ events, replays, size }) => {
        run++;
        const all = [...events, ...replays].map((one) => inTrace(one, `${run}-${one.traceId}`));
        for (let from = 0; from < all.length; from += size) {
          await write(store, all.slice(from, from + size));
          if (from % 3 === 0) await finish();
        }
      }),
      { numRuns: 20 },
    );
    await equalRecount(t, store, finish);
  });

  t.test('a run that moves to the trace of its parent takes its numbers with it', async (t) => {
    const { store, finish } = await open(t);
    const usage = { input_tokens: 7 };
    const run = (id: string, parentId: string | null, more = {}) =>
      anObservation({ id, parentId, traceId: null, usage, startTime: at(0), ...more });
    await write(store, [run('child', 'parent', { userId: 'u' })]);
    await equalRecount(t, store, finish, 'the child alone');
    await write(store, [run('grandchild', 'child')]);
    await write(store, [
      anObservation({ id: 'parent', traceId: 'trace', startTime: at(0), userId: 'v' }),
    ]);
    const { items } = await store.traces.listTraces(P, { limit: 9 });
    t.same(
      items.map(({ id, observationCount }) => [id, observationCount]),
      [['trace', 3]],
    );
    await equalRecount(t, store, finish, 'all in one trace');
  });

  t.test('a large trace is counted with its summary', async (t) => {
    const { store, finish } = await open(t);
    const one = (i: number) => anObservation({ id: `o${i}`, usage: { input_tokens: 1 } });
    const count = MAX_SUMMARIZED + 1;
    await write(
      store,
      Array.from({ length: count - 1 }, (_, i) => one(i)),
    );
    await equalRecount(t, store, finish, 'the largest that its write summarizes');
    await write(store, [one(count)]);
    await finish();
    await equalRecount(t, store, finish, 'a larger one');
  });

  t.test(`after ${MAX_VALUES} values of an hour, further ones are counted together`, async (t) => {
    const { store, finish } = await open(t);
    const withUser = (i: number, hour = 0) => {
      const id = `${hour}-${i}`;
      const startTime = at(hour * HOUR_MS);
      return anObservation({ traceId: id, id, userId: `u${i}`, startTime, endTime: startTime });
    };
    const users = async (hours = HOURS) => {
      const { values, others } = await store.rollups.facet(P, { field: 'user', hours, prefix: '' });
      return { named: values.length, others };
    };
    const many = (from: number, to: number, hour = 0) =>
      Array.from({ length: to - from }, (_, i) => withUser(from + i, hour));
    await write(store, many(0, MAX_VALUES));
    await finish();
    t.same(await users(), { named: MAX_VALUES, others: 0 }, 'exactly the limit');
    await write(store, [withUser(MAX_VALUES)]);
    await finish();
    t.same(await users(), { named: MAX_VALUES, others: 1 }, 'one past');
    await write(store, [...many(0, 1, 1), ...many(MAX_VALUES, MAX_VALUES + 1, 1)]);
    await finish();
    const nextHour = { from: FIRST_HOUR + 1, to: FIRST_HOUR + 2 };
    t.same(await users(nextHour), { named: 2, others: 0 }, 'another hour has its own');
    const others = async () => {
      const asked = {
        field: 'user',
        values: null,
        isGrouped: true,
        hours: HOURS,
        step: HOUR,
      } as const;
      const { points } = await store.rollups.stats(P, asked);
      return pointsOf(points)
        .find(({ key }) => key === null)
        ?.numbers.slice(0, 2);
    };
    t.same(await others(), [1, 1]);
    const more = anObservation({ traceId: `0-${MAX_VALUES}`, id: 'more', parentId: 'x' });
    await write(store, [{ ...more, startTime: at(0), endTime: at(0) }]);
    await finish();
    t.same(await others(), [1, 2], 'a change subtracts where it was added');
    const isIncomplete = async (user: string) => {
      const asked = {
        field: 'user',
        values: [user],
        isGrouped: true,
        hours: HOURS,
        step: HOUR,
      } as const;
      return (await store.rollups.stats(P, asked)).isIncomplete;
    };
    t.equal(await isIncomplete('u0'), false);
    t.equal(await isIncomplete(`u${MAX_VALUES}`), true);
  });

  t.test('changes of values that are counted together subtract nothing from a value', async (t) => {
    const { store, finish } = await open(t);
    const withUser = (i: number, userId: string, more: Partial<Observation> = {}) =>
      anObservation({ ...{ traceId: `${i}`, id: `${i}`, userId, startTime: at(0) }, ...more });
    await write(
      store,
      Array.from({ length: MAX_VALUES + 2 }, (_, i) => withUser(i, `u${i}`)),
    );
    await finish();
    const counted = async (step: number) => {
      const asked = { field: 'user', values: null, isGrouped: true, hours: HOURS, step } as const;
      const { points } = await store.rollups.stats(P, asked);
      const list = pointsOf(points).map(({ key, numbers }) => [key, numbers[0]] as const);
      return Object.fromEntries(list.filter(([key, traces]) => key === null || traces !== 1));
    };
    // The first one leaves the values that are counted together for one with a row, and a new one joins them.
    await write(store, [withUser(MAX_VALUES, 'u0', { version: '2' }), withUser(-1, 'new')]);
    for (const when of ['as changes', 'in rows']) {
      for (const step of [HOUR, DAY]) t.same(await counted(step), { u0: 2, null: 2 }, when);
      await finish();
    }
  });

  t.test('a facet has the same others before and after changes are in rows', async (t) => {
    const { store, finish } = await open(t);
    const withUser = (i: number, userId: string, more: Partial<Observation> = {}) =>
      anObservation({ ...{ traceId: `${i}`, id: `${i}`, userId, startTime: at(0) }, ...more });
    const many = MAX_VALUES + 3;
    await write(
      store,
      Array.from({ length: many }, (_, i) => withUser(i, `u${i}`)),
    );
    await finish();
    const facet = async (prefix: string, hours: Hours) => {
      const { values, others } = await store.rollups.facet(P, { field: 'user', hours, prefix });
      const sum = values.reduce((all, [, traces]) => all + traces, 0);
      return { values: values.length, sum, u0: new Map(values).get('u0'), others };
    };
    // One leaves the values that are counted together for one with a row, one is renamed among them, one is new, and one is added to a row.
    await write(store, [
      withUser(MAX_VALUES, 'u0', { version: '2' }),
      withUser(MAX_VALUES + 1, 'renamed', { version: '2' }),
      withUser(-1, 'new'),
      withUser(-2, 'u0'),
    ]);
    const day = {
      from: Math.floor(FIRST_HOUR / DAY) * DAY,
      to: Math.ceil((FIRST_HOUR + 1) / DAY) * DAY,
    };
    for (const when of ['as changes', 'in rows']) {
      for (const hours of [HOURS, day]) {
        const all = { values: MAX_VALUES, sum: MAX_VALUES + 2, u0: 3, others: 3 };
        t.same(await facet('', hours), all, when);
        t.same(await facet('x', hours), { values: 0, sum: 0, u0: undefined, others: 3 }, when);
      }
      await finish();
    }
  });

  t.test('a value of more than 256 characters is counted without its text', async (t) => {
    const { store, finish } = await open(t);
    for (const [i, length] of [256, 257].entries()) {
      const userId = 'x'.repeat(length);
      await write(store, [anObservation({ traceId: `t${i}`, id: `o${i}`, userId, model: userId })]);
    }
    const { values, others } = await store.rollups.facet(P, {
      ...{ field: 'user', hours: HOURS, prefix: '' },
    });
    t.same([values, others], [[['x'.repeat(256), 1]], 1]);
    await equalRecount(t, store, finish);
  });

  t.test('rollups stay after the retention of their traces', async (t) => {
    const { store, clock, finish } = await open(t);
    const project = await store.projects.create('short');
    await store.projects.update(project.id, { retentionDays: 1 });
    await write(store, [anObservation({ userId: 'u' })], project.id);
    clock.set(clock.now() + 401 * 24 * HOUR_MS);
    await finish();
    t.equal((await store.traces.listTraces(project.id, { limit: 9 })).items.length, 0);
    const facet = { field: 'user', hours: HOURS, prefix: '' } as const;
    t.same((await store.rollups.facet(project.id, facet)).values, [['u', 1]]);
  });

  t.test('the rollups of a deleted project go with it', async (t) => {
    const { store, finish } = await open(t);
    const project = await store.projects.create('gone');
    for (const id of ['a', 'b']) {
      await write(store, [anObservation({ traceId: id, id, userId: 'u' })], project.id);
      if (id === 'a') await finish();
    }
    const facet = { field: 'user', hours: HOURS, prefix: '' } as const;
    t.same((await store.rollups.facet(project.id, facet)).values, [['u', 2]]);
    await store.projects.delete(project.id);
    await finish();
    t.same((await store.rollups.facet(project.id, facet)).values, []);
  });

  t.test('an erasure subtracts its traces, and leaves no text of them', async (t) => {
    const { store, clock, finish } = await open(t);
    const { id: project } = await store.projects.create('p');
    for (const [i, userId] of ['u', 'u', 'v'].entries()) {
      const about = { traceId: `t${i}`, id: `o${i}`, userId, startTime: at(0), endTime: at(100) };
      await write(store, [anObservation({ ...about, sessionId: `session of ${userId}` })], project);
      if (i === 0) await finish();
    }
    clock.set(Math.max(clock.now(), T0) + 1000);
    const by = { actor: 'admin-token', address: null };
    const query = aQuery('user:u');
    await store.erasures.request(project, { query, isDryRun: false }, by);
    await finish();
    const expected = await recount(store, project, HOUR);
    t.same(Object.keys(expected).filter((name) => name.includes('user')).length, 1);
    t.same(await rollups(store, project, HOURS, HOUR), expected);
    t.same(await rollups(store, project, HOURS, DAY), await recount(store, project, DAY));
  });

  t.test('rollups survive a crash, whether or not changes are added to the rows', async (t) => {
    const { store, finish, reopen } = await open(t);
    await write(store, [anObservation({ userId: 'u' })]);
    await finish();
    await write(store, [anObservation({ traceId: 'b', id: 'b', userId: 'v' })]);
    const before = await rollups(store, P, HOURS, HOUR);
    const after = await reopen('crash');
    t.same(await rollups(after, P, HOURS, HOUR), before);
  });

  t.test('matching traces are found with what they contribute', async (t) => {
    const { store } = await open(t);
    const ids = ['a', 'b', 'c'];
    await write(
      store,
      ids.map((traceId, i) => anObservation({ traceId, id: traceId, startTime: at(i) })),
    );
    const first = await store.rollups.listContributions(P, { limit: 2 });
    t.same(
      first.items.map((one) => one.at - T0),
      [2, 1],
    );
    const cursor = first.nextCursor ?? '';
    const second = await store.rollups.listContributions(P, { limit: 2, cursor });
    t.same([second.items.map((one) => one.at - T0), second.nextCursor], [[0], null]);
  });
}

function inTrace(one: Observation, traceId: string): Observation {
  return {
    ...one,
    traceId,
    id: `${traceId}-${one.id}`,
    parentId: one.parentId && `${traceId}-${one.parentId}`,
  };
}

/** Events of a few observations in two traces: several of one observation, and repeated ones. */
function someWrites(ids: readonly string[]) {
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
  const event = fc
    .record({
      id: fc.constantFrom(...ids),
      traceId: fc.constantFrom('x', 'y'),
      parentId: maybe(fc.constantFrom(...ids)),
      name: maybe(fc.constantFrom('n', 'o')),
      kind: fc.constantFrom('tool' as const, 'generation' as const, 'chain' as const),
      status: fc.constantFrom('error' as const, 'success' as const),
      userId: maybe(fc.constantFrom('u', 'v')),
      sessionId: maybe(fc.constantFrom('s', 't')),
      model: maybe(fc.constantFrom('m', 'n')),
      usage: maybe(fc.record({ input_tokens: fc.nat(9), output_tokens: fc.nat(9) })),
      version: fc.constantFrom('0', '1', '2'),
      hour: fc.integer({ min: -3, max: 3 }),
      tool: maybe(fc.constantFrom('w', 'x')),
      cost: maybe(fc.nat(9)),
      latency: fc.nat(9),
    })
    .map(({ hour, tool, cost, latency, ...fields }) =>
      anObservation({
        ...fields,
        startTime: at(hour * HOUR_MS),
        endTime: at(hour * HOUR_MS + latency * 100),
        details: {
          ...(tool === null ? {} : { tool }),
          ...(cost === null
            ? {}
            : { cost: { input: null, output: null, total: cost, source: 'sent' } }),
        },
      }),
    );
  return fc
    .record({
      events: fc.array(event, { minLength: 1, maxLength: 10 }),
      size: fc.integer({ min: 1, max: 6 }),
      picks: fc.array(fc.nat(9), { maxLength: 4 }),
    })
    .map(({ events, size, picks }) => ({
      ...{ events, size },
      replays: picks.flatMap((pick) => events[pick] ?? []),
    }));
}
