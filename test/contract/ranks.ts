import fc from 'fast-check';
import type { Test } from 'tap';
import type { Observation } from '../../src/model/observation.ts';
import type { RankOrder } from '../../src/read/ranked-page.ts';
import { RankedPage } from '../../src/read/ranked-page.ts';
import type { RankField } from '../../src/store/ranking.ts';
import { RANK_FIELDS } from '../../src/store/ranking.ts';
import type { Store, StoredTrace } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { fakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';
import type { SharesStore } from './place.ts';

export type OpenForRanks = SharesStore &
  ((t: Test) => Promise<{ readonly clock: FakeClock; readonly store: Store }>);

const T0 = Date.UTC(2026, 0, 15, 12);
const DAY = 24 * 3_600_000;
/** Every trace of the tests. */
const EVERYTHING = 'start:>=2026-01-01';

async function write(store: Store, list: readonly Observation[], projectId = P): Promise<void> {
  const observations = list.map((observation, index) => ({ ...observation, index }));
  const source = nativeBatch(list.length, { receivedAt: T0, tenant: aTenant({ projectId }) });
  await store.traces.write({ kind: 'observations', source, observations });
}

type Asked = RankOrder & {
  readonly text: string;
  readonly limit: number;
  readonly size?: number;
  /** Milliseconds of the store's work for a page. */
  readonly budget?: number;
  readonly now?: number;
};

type Shown = { readonly ids: string[]; readonly sortedTo: number | null };

/** The pages of a sorted list. */
async function pagesOf(
  store: Store,
  { text, budget = 1e9, now = T0, ...asked }: Asked,
): Promise<Shown[]> {
  const limits = { page_time: budget, page_timeout: 1e9 };
  const clock = fakeClock(now);
  const parts = { ...asked, ranks: store.ranks, projectId: P, query: aQuery(text), limits, clock };
  const pages: Shown[] = [];
  let first: string | undefined;
  do {
    const page = new RankedPage(parts, first);
    const ids: string[] = [];
    let cursor: string | undefined;
    let spent = 0;
    do {
      const { items, nextCursor, spentMs = 0 } = await page.fetch(asked.limit - ids.length);
      ids.push(...items.map(({ id }) => id));
      cursor = nextCursor ?? undefined;
      spent += spentMs;
    } while (cursor !== undefined && spent < 1e9);
    pages.push({ ids, sortedTo: page.sortedTo?.ms ?? null });
    first = cursor;
  } while (first !== undefined);
  return pages;
}

/** The ids of a sorted list, of all its pages. */
export async function sortedIds(store: Store, asked: Asked): Promise<string[]> {
  return (await pagesOf(store, asked)).flatMap(({ ids }) => ids);
}

export const RANK_VALUES: Readonly<Record<RankField, (trace: StoredTrace) => number | null>> = {
  latency: ({ latencyMs }) => latencyMs,
  cost: ({ cost }) => cost?.total ?? null,
  tokens: ({ usage }) => usage?.total_tokens ?? null,
};

/** A plain sort: traces without the value are last, and equal ones in the order of time. */
function sorted(traces: readonly StoredTrace[], { by, isAscending }: RankOrder): string[] {
  const sign = isAscending ? 1 : -1;
  const last = isAscending ? Number.MAX_VALUE : -1;
  const rank = (trace: StoredTrace) => RANK_VALUES[by](trace) ?? last;
  return traces
    .toSorted((a, b) => sign * (rank(a) - rank(b) || timeOf(a) - timeOf(b)))
    .map(({ id }) => id);
}

function timeOf({ startTime }: StoredTrace): number {
  return startTime?.ms ?? T0;
}

/** The rules for lists in the order of a value. */
export function ranks(t: Test, open: OpenForRanks): void {
  t.test('sorts as a plain sort does, whatever the size of pages and steps', async (t) => {
    const { store } = await open(t);
    const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
    const fields = fc.record({
      end: maybe(fc.integer({ min: 0, max: 4 })),
      usage: maybe(fc.record({ input_tokens: fc.nat(3) })),
      cost: maybe(fc.constantFrom(1, 2, 10_000_000_000_000)),
      model: maybe(fc.constantFrom('m', 'n')),
    });
    const made = fc.sample(fields, { numRuns: 60, seed: 5 }).map(({ end, usage, cost, model }, i) =>
      anObservation({
        ...{ traceId: `t${i}`, id: `o${i}`, usage, model },
        // Distinct starts: the arrival decides between equal ones.
        startTime: { ms: T0 + i, ns: 0 },
        endTime: end === null ? null : { ms: T0 + i + end, ns: end },
        details: cost === null ? null : { cost: costOf(cost) },
      }),
    );
    await write(store, made);
    await write(store, [anObservation({ traceId: 'foreign' })], 'proj_other');
    const traces = (await store.traces.listTraces(P, { limit: 100 })).items;
    t.equal(traces.length, made.length);
    const asked = fc.record({
      by: fc.constantFrom(...RANK_FIELDS),
      isAscending: fc.boolean(),
      text: fc.constantFrom(EVERYTHING, `${EVERYTHING} model:m`, `${EVERYTHING} -model:m has:cost`),
      limit: fc.integer({ min: 1, max: 70 }),
      size: fc.integer({ min: 1, max: 70 }),
    });
    const holds = ({ models, cost }: StoredTrace, text: string): boolean => {
      if (text.includes('-model')) return !models.includes('m') && cost !== null;
      return text === EVERYTHING || models.includes('m');
    };
    await fc.assert(
      fc.asyncProperty(asked, async (one) => {
        const expected = sorted(
          traces.filter((trace) => holds(trace, one.text)),
          one,
        );
        t.same(await sortedIds(store, one), expected);
      }),
      { numRuns: 30 },
    );
  });

  t.test('a search that its budget ends lists every trace once, each part in order', async (t) => {
    const { store } = await open.shared();
    const count = 40;
    await write(
      store,
      Array.from({ length: count }, (_, i) =>
        anObservation({
          ...{ traceId: `t${i}`, id: `o${i}`, startTime: { ms: T0 + i, ns: 0 } },
          endTime: { ms: T0 + i + ((i * 7) % count), ns: 0 },
        }),
      ),
    );
    const asked = { by: 'latency', isAscending: false, text: EVERYTHING, limit: 3 } as const;
    // A step takes longer than no time at all.
    const pages = await pagesOf(store, { ...asked, size: 5, budget: 0 });
    const ids = pages.flatMap(({ ids }) => ids);
    t.same(ids.toSorted(), Array.from({ length: count }, (_, i) => `t${i}`).sort());
    const latencyOf = (id: string) => (Number(id.slice(1)) * 7) % count;
    const [first, second, third] = pages;
    const newest = [35, 36, 37, 38, 39].map((i) => `t${i}`);
    const part = newest.toSorted((a, b) => latencyOf(b) - latencyOf(a));
    t.same(first, { ids: part.slice(0, 3), sortedTo: T0 + 35 });
    t.same(second, { ids: part.slice(3), sortedTo: T0 + 35 });
    t.equal(third?.sortedTo, T0 + 30);
    t.equal(pages.at(-1)?.sortedTo, null);
  });

  t.test('sorts by sums that exceed the integers that a number has exactly', async (t) => {
    const { store } = await open.shared();
    const one = (traceId: string, id: string, tokens: number) =>
      anObservation({ traceId, id, usage: { input_tokens: tokens, output_tokens: 5 } });
    const most = Number.MAX_SAFE_INTEGER;
    await write(store, [one('few', 'a', 7), one('many', 'b', most), one('many', 'c', most)]);
    for (const isAscending of [false, true]) {
      const asked = { by: 'tokens', isAscending, text: EVERYTHING, limit: 9 } as const;
      t.same(await sortedIds(store, asked), isAscending ? ['few', 'many'] : ['many', 'few']);
    }
  });

  t.test('without a range of time a list has the last 24 hours', async (t) => {
    const { store } = await open.shared();
    const one = (traceId: string, ms: number) =>
      anObservation({ traceId, id: traceId, startTime: { ms, ns: 0 }, endTime: { ms, ns: 1 } });
    await write(store, [one('old', T0 - DAY - 1), one('at', T0 - DAY), one('new', T0)]);
    const asked = { by: 'latency', isAscending: false, limit: 1 } as const;
    t.same(await sortedIds(store, { ...asked, text: '' }), ['new', 'at']);
    t.same(await sortedIds(store, { ...asked, text: '-start:2026-01-01' }), ['new', 'at']);
    t.same(await sortedIds(store, { ...asked, text: EVERYTHING }), ['new', 'at', 'old']);
  });

  t.test('a trace that was removed since is left out', async (t) => {
    const { store } = await open(t);
    await write(store, [anObservation()]);
    const look = { by: 'cost', isAscending: true, query: aQuery(''), limit: 9, size: 9 } as const;
    const bounds = { after: null, until: null, behind: null, before: null };
    const { traces, next } = await store.ranks.rankTraces(P, { ...look, ...bounds });
    t.equal(next, null);
    const [found] = traces;
    t.equal(traces.length, 1);
    const known = await store.ranks.tracesOf(P, [found?.n ?? 0, 1_000_000]);
    t.same([...known.keys()], [found?.n]);
    t.equal((await store.ranks.tracesOf('proj_other', [found?.n ?? 0])).size, 0);
  });
}

function costOf(total: number) {
  return { input: null, output: null, total, source: 'sent' as const };
}
