import t from 'tap';
import { RetryableError } from '../../../src/model/errors.ts';
import { nextSize } from '../../../src/read/listing.ts';
import type { StoreReading } from '../../../src/read/stored-request.ts';
import { walkTraces } from '../../../src/read/walk.ts';

const slow = new RetryableError('query_timeout', 'too slow');

type Conditions = {
  readonly pageTime?: number;
  readonly pageTimeout?: number;
  /** Milliseconds of work for each trace that the walk adds. */
  readonly addingMs?: number;
};

/** A walk over ten traces, whose steps take 10 ms of the store's work, and are slow if `isSlow` says so. */
async function walked(
  isSlow: (cursor: number, size: number) => boolean,
  { pageTime = 1e9, pageTimeout = 1e9, addingMs = 0 }: Conditions = {},
) {
  let now = 0;
  let workMs = 0;
  const sizes: number[] = [];
  let held = 0;
  const reading: Pick<StoreReading, 'read' | 'reads' | 'exchange'> = {
    read: { turn: (work: () => Promise<unknown>) => work(), hold: (n: number) => (held = n) },
    reads: { limits: { page_time: pageTime, page_timeout: pageTimeout } },
    exchange: { clock: { now: () => now } },
  } as never;
  const seen: number[] = [];
  const end = await walkTraces(
    reading,
    async (cursor: string | undefined, size: number) => {
      now += 100;
      const first = Number(cursor ?? 0);
      sizes.push(size);
      if (isSlow(first, size)) throw slow;
      const next = first + 2;
      const isLast = next >= 10;
      const searchedTo = isLast ? null : { ms: 1_000 - next, ns: 0 };
      const items = [first, first + 1];
      return { items, nextCursor: isLast ? null : String(next), searchedTo, spentMs: 10 };
    },
    (item) => {
      workMs += addingMs;
      return seen.push(item) * 100;
    },
    () => {
      const before = workMs;
      return () => workMs - before;
    },
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
    const { end, seen } = await walked(() => false, { pageTime });
    t.same(end, { isPartial: true, searchedTo: { ms: 1_000 - traces, ns: 0 } });
    t.equal(seen.length, traces);
  }
});

t.test('the work of adding the traces counts, and makes steps smaller', async (t) => {
  const { end, seen, sizes } = await walked(() => false, { pageTime: 200, addingMs: 15 });
  t.same(end, { isPartial: true, searchedTo: { ms: 994, ns: 0 } });
  t.equal(seen.length, 6, 'three steps of 40 ms');
  t.same(sizes, [512, 256, 128]);
});

t.test('a walk that waits for its store ends after the time of a page', async (t) => {
  for (const [pageTimeout, traces] of [
    [200, 4],
    [201, 6],
  ] as const) {
    const { end, seen } = await walked(() => false, { pageTimeout });
    t.same(end, { isPartial: true, searchedTo: { ms: 1_000 - traces, ns: 0 } });
    t.equal(seen.length, traces);
  }
  const whole = await walked(() => false, { pageTimeout: 500 });
  t.equal(whole.end.isPartial, false, 'the last step is the end');
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
