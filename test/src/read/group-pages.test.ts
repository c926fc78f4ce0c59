import t from 'tap';
import { GroupPage } from '../../../src/read/group-pages.ts';
import type { GroupLook, GroupStore, GroupSums } from '../../../src/store/groups.ts';
import { cursorOf } from '../../../src/store/rows/place.ts';

const PAGE_MS = 30;
/** The sums of one step. */
const SUMS: GroupSums = {
  ...{ traces: 1, observations: 1, errors: 0, inputTokens: null, outputTokens: null },
  ...{ totalTokens: null, cost: null, firstTime: null, lastTime: null, lastUserId: null },
  sessions: [],
};
const place = (n: number) => ({ ms: 1_000 - n, ns: 0, n });

/** A store of 100 groups of which each step of the walk takes `findMs`, and each of the two steps of a sum takes `sumMs`. */
function page(findMs: number, sumMs: number) {
  const groups: GroupStore = {
    async findGroups(_project, { after }: GroupLook) {
      const first = after === null ? 1 : after.n + 1;
      const found = Array.from({ length: 100 - first + 1 }, (_, i) => first + i);
      return {
        groups: found.map((n) => ({ value: `g${n}`, userId: null, place: place(n) })),
        ...{ next: null, spentMs: findMs },
      };
    },
    async sumGroup(_project, _value, { after }) {
      return { sums: SUMS, next: after === null ? place(0) : null, spentMs: sumMs };
    },
  };
  const source = {
    groups,
    projectId: 'p',
    by: 'session',
    query: { terms: [] },
    grow() {},
  } as const;
  return new GroupPage(source, undefined, PAGE_MS);
}

t.test('a turn ends with the budget of the page', async (t) => {
  const listing = page(1, 4);
  const first = await listing.fetch(50, undefined, 100);
  t.equal(first.spentMs, 21, 'a turn ends after 20 ms, with the step that is under way');
  t.equal(first.items.length, 2);
  const second = await listing.fetch(50, first.nextCursor ?? undefined, 100);
  t.equal(second.spentMs, 9, 'only 9 ms of the 30 were left');
  t.equal(second.items.length, 1);
});

t.test('a page has at least one group, however slow the store is', async (t) => {
  const { items, nextCursor } = await page(1_000, 1_000).fetch(50, undefined, 100);
  t.same(
    items.map(({ value, isPartial }) => ({ value, isPartial })),
    [{ value: 'g1', isPartial: true }],
  );
  t.ok(nextCursor);
});

/** A store of 400 groups with one trace each, of which each call takes `callMs`, as over a network. */
function distant(callMs: number) {
  let calls = 0;
  const called = () => {
    calls++;
    return callMs;
  };
  const groups: GroupStore = {
    async findGroups(_project, { query, after, size }: GroupLook) {
      const [term] = query.terms;
      const text = term?.type === 'values' ? term.values[0]?.text : undefined;
      const first = after === null ? 1 : after.n + 1;
      const numbers = Array.from({ length: Math.min(size, 400 - first + 1) }, (_, i) => first + i);
      const found = numbers.map((n) => ({ value: `g${n}`, userId: null, place: place(n) }));
      const wanted = found.filter(({ value }) => text === undefined || value === text);
      const next = numbers.at(-1) === 400 || text !== undefined ? null : place(first + size - 1);
      return { groups: wanted, next, spentMs: called() };
    },
    async sumGroup() {
      return { sums: SUMS, next: null, spentMs: called() };
    },
    async startGroups(_project, values) {
      const started = values.map((value) => {
        const newest = place(Number(value.slice(1)));
        return { value, sums: SUMS, newest, next: null };
      });
      return { started, spentMs: called() };
    },
  };
  const source = {
    ...{ groups, projectId: 'p', by: 'user' as const },
    query: { terms: [] },
    grow() {},
  };
  return { source, calls: () => calls };
}

t.test('a page has many groups of a store that starts several at once', async (t) => {
  const { source, calls } = distant(12);
  const { pages } = await pagesOf(source);
  t.same(
    pages.flat(),
    Array.from({ length: 400 }, (_, i) => `g${i + 1}`),
  );
  t.ok(pages.length <= 400 / 16, `${pages.length} pages`);
  t.ok(calls() <= 4 * pages.length, `${calls()} calls`);
});

t.test('a page lists the groups that it has started, however long that took', async (t) => {
  const { source } = distant(1_000);
  const first = await new GroupPage(source, undefined, PAGE_MS).fetch(50, undefined, 128);
  t.equal(first.items.length, 32);
  const few = await new GroupPage(source, undefined, PAGE_MS).fetch(3, undefined, 128);
  t.equal(few.items.length, 3, 'it starts no more than it may list');
});

t.test('a large group that an earlier page has ends no page', async (t) => {
  const { source } = distant(1_000);
  const { groups } = source;
  const values = (first: number) => Array.from({ length: 20 }, (_, i) => `g${first + i}`);
  const large = { value: 'large', userId: null };
  const page = (cursor: string | undefined) =>
    new GroupPage(
      {
        ...source,
        groups: {
          ...groups,
          async findGroups(project, look) {
            const step = await groups.findGroups(project, { ...look, size: 20 });
            const [before, behind] = [step.groups.slice(0, 10), step.groups.slice(10)];
            const last = before.at(-1)?.place ?? place(0);
            return { ...step, groups: [...before, { ...large, place: last }, ...behind] };
          },
          async startGroups(project, values, look) {
            const { started, spentMs } = (await groups.startGroups?.(project, values, look)) ?? {
              started: [],
              spentMs: 0,
            };
            const newer = { newest: place(10), next: place(200) };
            return {
              started: started.map((one) => (one.value === 'large' ? { ...one, ...newer } : one)),
              spentMs,
            };
          },
        },
      },
      cursor,
      PAGE_MS,
    ).fetch(50, cursor, 20);
  const { items } = await page(cursorOf(place(20)));
  t.same(
    items.map(({ value }) => value),
    values(21),
  );
});

/**
 * A store with one group of 20,000 traces, of which those at these places match a query. A step takes a millisecond for each 100 traces it
 * looks at.
 */
function sparse(matching: readonly number[], startsGroups = false) {
  const traces = 20_000;
  const ends: number[] = [];
  const groups: GroupStore = {
    async findGroups(_project, { after, size }: GroupLook) {
      const first = after === null ? 1 : after.n + 1;
      const last = Math.min(traces, first + size - 1);
      const newest = matching.find((n) => n >= first && n <= last);
      ends.push(last);
      return {
        groups: newest === undefined ? [] : [{ value: 'g', userId: null, place: place(newest) }],
        next: last === traces ? null : place(last),
        spentMs: (last - first + 1) / 100,
      };
    },
    async sumGroup() {
      return { sums: SUMS, next: null, spentMs: 1 };
    },
    ...(startsGroups
      ? {
          async startGroups(project, values, look) {
            const step = await groups.findGroups(project, { ...look, after: null });
            const newest = step.groups[0]?.place ?? null;
            const started = values.map((value) => ({ value, sums: SUMS, newest, next: step.next }));
            return { started, spentMs: step.spentMs };
          },
        }
      : {}),
  };
  const source = {
    ...{ groups, projectId: 'p', by: 'user' as const },
    query: { terms: [] },
    grow() {},
  };
  return { source, ends };
}

/** The groups of each page of a list, and the work of its longest turn. */
async function pagesOf(source: ConstructorParameters<typeof GroupPage>[0]) {
  const pages: string[][] = [];
  let longestMs = 0;
  let cursor: string | undefined;
  do {
    const page = new GroupPage(source, cursor, PAGE_MS);
    const values: string[] = [];
    let spentMs = 0;
    do {
      const { items, nextCursor, spentMs: ofTurn = 0 } = await page.fetch(50, cursor, 512);
      values.push(...items.map(({ value }) => value));
      longestMs = Math.max(longestMs, ofTurn);
      spentMs += ofTurn;
      cursor = nextCursor ?? undefined;
    } while (cursor !== undefined && spentMs < PAGE_MS && pages.length < 500);
    pages.push(values);
  } while (cursor !== undefined && pages.length < 500);
  return { pages, longestMs };
}

for (const startsGroups of [false, true]) {
  const how = startsGroups ? ', if the store starts several groups at once' : '';
  t.test(
    `a group with many newer traces is looked for in turns and over pages${how}`,
    async (t) => {
      const { source, ends } = sparse([19_990], startsGroups);
      const { pages, longestMs } = await pagesOf(source);
      t.same(pages.flat(), ['g']);
      t.ok(pages.length < 500, 'the list ends');
      t.ok(longestMs < 50, `a turn takes ${longestMs} ms, not the 200 of all traces`);
      const looked = ends.filter((end) => end < 19_000).length;
      t.ok(looked < 2 * (20_000 / 512) + pages.length, `${looked} steps look at no trace again`);
    },
  );

  t.test(`a group that an earlier page has is not listed again${how}`, async (t) => {
    for (const first of [1, 600, 9_000]) {
      const { pages } = await pagesOf(sparse([first, 19_990], startsGroups).source);
      t.same(pages.flat(), ['g']);
    }
  });
}
