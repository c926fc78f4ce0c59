import t from 'tap';
import { GroupPage } from '../../../src/read/group-pages.ts';
import type { GroupLook, GroupStore, GroupSums } from '../../../src/store/groups.ts';

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
