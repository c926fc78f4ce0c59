import t from 'tap';
import { RetryableError } from '../../../src/model/errors.ts';
import { nextSize } from '../../../src/read/listing.ts';
import type { StoreReading } from '../../../src/read/stored-request.ts';
import { walkTraces } from '../../../src/read/walk.ts';

const slow = new RetryableError('query_timeout', 'too slow');

/** A walk over ten traces, whose steps are slow if `isSlow` says so. */
async function walked(isSlow: (cursor: number, size: number) => boolean, pageTime = 1e9) {
  const sizes: number[] = [];
  let held = 0;
  const reading: Pick<StoreReading, 'read' | 'reads'> = {
    read: { turn: (work: () => Promise<unknown>) => work(), hold: (n: number) => (held = n) },
    reads: { limits: { page_time: pageTime } },
  } as never;
  const seen: number[] = [];
  const end = await walkTraces(
    reading,
    async (cursor, size) => {
      const first = Number(cursor ?? 0);
      sizes.push(size);
      if (isSlow(first, size)) throw slow;
      const next = first + 2;
      const isLast = next >= 10;
      const searchedTo = isLast ? null : { ms: 1_000 - next, ns: 0 };
      const items = [first, first + 1];
      return { items, nextCursor: isLast ? null : String(next), searchedTo, spentMs: 10 };
    },
    (item) => seen.push(item) * 100,
  );
  return { end, sizes, seen, held };
}

t.test('a walk sees every trace, and holds what it adds up', async (t) => {
  const { end, seen, held } = await walked(() => false);
  t.same(end, { isPartial: false, searchedTo: null });
  t.same([seen.length, held], [10, 1_000]);
});

t.test('a walk ends at its budget, which is half of that of a list', async (t) => {
  for (const [pageTime, traces] of [
    [40, 4],
    [41, 6],
  ] as const) {
    const { end, seen } = await walked(() => false, pageTime);
    t.same(end, { isPartial: true, searchedTo: { ms: 1_000 - traces, ns: 0 } });
    t.equal(seen.length, traces);
  }
});

t.test('steps become smaller in front of the end of the budget', async (t) => {
  t.equal(nextSize(100, 10, 50), 200, 'a cheap step is followed by a larger one');
  t.equal(nextSize(100, 10, 20), 200, 'which may use all that is left');
  t.equal(nextSize(100, 10, 19), 190);
  t.equal(nextSize(100, 0, 0), 200);
  t.equal(nextSize(100, 10, 0), 32, 'no step is smaller than the smallest');
  t.equal(nextSize(100, 10_000), 50);
});

t.test('a slow step is repeated with the fewest traces', async (t) => {
  const { end, sizes, seen } = await walked((cursor, size) => cursor === 4 && size > 32);
  t.same([end.isPartial, seen.length], [false, 10]);
  t.equal(sizes[3], 32);
});

t.test('a walk whose smallest step is slow ends there', async (t) => {
  const { end, seen } = await walked((cursor) => cursor === 4);
  t.same(end, { isPartial: true, searchedTo: { ms: 996, ns: 0 } });
  t.equal(seen.length, 4);
});

t.test('a walk whose first step is slow fails', async (t) => {
  await t.rejects(
    walked(() => true),
    { code: 'query_timeout' },
  );
});
