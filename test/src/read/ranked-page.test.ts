import t from 'tap';
import { RetryableError } from '../../../src/model/errors.ts';
import { RankedPage } from '../../../src/read/ranked-page.ts';
import type { RankedTrace, RankLook, RankStore } from '../../../src/store/ranking.ts';
import { compareRanks } from '../../../src/store/ranking.ts';
import { fakeClock } from '../../helper/clock.ts';
import { aTrace } from '../../helper/fake-traces.ts';

/** Traces whose steps look at one trace each, newest first. */
function ranksOf(traces: readonly RankedTrace[]): RankStore {
  return {
    async rankTraces(_projectId, { after, until, behind, isAscending }: RankLook) {
      const inOrder = traces.toSorted((a, b) => b.ms - a.ms);
      const [next] = inOrder.filter(
        ({ ms }) => (after === null || ms < after.ms) && (until === null || ms >= until.ms),
      );
      if (next === undefined) return { traces: [], next: null, spentMs: 1 };
      const isAsked = behind === null || compareRanks(behind, next, isAscending) < 0;
      const { ms, ns, n } = next;
      return { traces: isAsked ? [next] : [], next: { ms, ns, n }, spentMs: 1 };
    },
    async tracesOf(_projectId, numbers) {
      return new Map(numbers.map((n) => [n, aTrace({ id: `t${n}` })]));
    },
  };
}

t.test('lists every trace of a window whose oldest trace moves to a later time', async (t) => {
  const traces = [
    { n: 1, ms: 50, ns: 0, value: 5 },
    { n: 2, ms: 40, ns: 0, value: 1 },
    { n: 3, ms: 30, ns: 0, value: 3 },
    { n: 4, ms: 20, ns: 0, value: 9 },
  ];
  const page = async (cursor?: string) => {
    const parts = {
      ...({ by: 'latency', isAscending: false, ranks: ranksOf(traces), projectId: 'p' } as const),
      ...{ query: { terms: [] }, limit: 1, clock: fakeClock() },
      limits: { page_time: 3, page_timeout: 1000 },
    };
    const ranked = new RankedPage(parts, cursor);
    const ids: string[] = [];
    let next: string | null | undefined;
    for (let spentMs = 0; Number.isFinite(spentMs) && next !== null; ) {
      const found = await ranked.fetch(1);
      ids.push(...found.items.map(({ id }) => id));
      next = found.nextCursor;
      spentMs = found.spentMs ?? 0;
    }
    return { ids, next };
  };
  const first = await page();
  t.same(first.ids, ['t1'], 'of the traces 1 to 3, which the budget is enough for');
  // An event changes its time, after the window has ended with it.
  traces[2] = { n: 3, ms: 45, ns: 0, value: 3 };
  const ids = [...first.ids];
  for (let { next } = first; next !== null && next !== undefined; ) {
    const more = await page(next);
    ids.push(...more.ids);
    next = more.next ?? null;
  }
  t.same(ids, ['t1', 't3', 't2', 't4']);
});

t.test('a slow step ends the window, and a slow first step the request', async (t) => {
  const traces = [
    { n: 1, ms: 50, ns: 0, value: 5 },
    { n: 2, ms: 40, ns: 0, value: 9 },
  ];
  const { rankTraces, tracesOf } = ranksOf(traces);
  let slowFrom = 2;
  let steps = 0;
  const ranks: RankStore = {
    async rankTraces(...asked) {
      if (++steps >= slowFrom) throw new RetryableError('query_timeout', 'the query is slow');
      return rankTraces(...asked);
    },
    tracesOf,
  };
  const pageAt = (cursor?: string) =>
    new RankedPage(
      {
        ...({ by: 'latency', isAscending: false, ranks, projectId: 'p' } as const),
        ...{ query: { terms: [] }, limit: 9, clock: fakeClock() },
        limits: { page_time: 1000, page_timeout: 1000 },
      },
      cursor,
    );
  const page = pageAt();
  t.same((await page.fetch(9)).items, []);
  const { items, nextCursor } = await page.fetch(9);
  t.same(
    items.map(({ id }) => id),
    ['t1'],
    'of what the first step looked at',
  );
  t.same(page.sortedTo, { ms: 50, ns: 0 });
  steps = 0;
  slowFrom = 1;
  await t.rejects(pageAt(nextCursor ?? '').fetch(9), { code: 'query_timeout' });
});
