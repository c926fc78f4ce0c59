import { RetryableError } from '../model/errors.ts';
import type { Instant } from '../model/observation.ts';
import type { Query } from '../query/query.ts';
import { SEARCHED_TRACES } from '../store/rows/trace-page.ts';
import type { StepPage } from '../store/rows/walked-page.ts';
import type { TraceFilter } from '../store/store.ts';
import { workClock } from '../thread/work-clock.ts';
import { fetched, nextSize, SMALLEST_STEP } from './listing.ts';
import type { StoreReading } from './stored-request.ts';
import type { StepRange } from './time-range.ts';
import { startedWithin } from './time-range.ts';

/** The end of a walk. */
export type Walked = {
  /** The work or the time ended the walk: it has seen the traces down to `searchedTo`. */
  readonly isPartial: boolean;
  readonly searchedTo: Instant | null;
};

/** The part of `page_time` for sums over traces: they read all that they find, while a list ends at its limit. */
export const SHARE_OF_SUMS = 0.5;

/** The traces of a walk: those that match and started within the range. */
type WalkOf = { readonly query: Query; readonly range: StepRange };

type Walking = Pick<StoreReading, 'read' | 'reads' | 'exchange'>;

/** Walks over the matching traces that started within a range, as `walkTraces` does. */
export function walkStarted<Item>(
  reading: Walking,
  { query, range }: WalkOf,
  find: (filter: TraceFilter) => Promise<StepPage<Item>>,
  add: (item: Item) => number,
): Promise<Walked> {
  const wanted = startedWithin(query, range);
  return walkTraces(
    reading,
    (cursor, size) =>
      find({ query: wanted, limit: size, size, ...(cursor === undefined ? {} : { cursor }) }),
    add,
  );
}

/**
 * Walks over all traces that match, newest first, each step in a turn of its own, until half of `page_time` of work: the
 * store's, and that of `add`, which costs more than the statement for traces with many values. A walk over a cold disk works little and
 * waits long, so it also ends after `page_timeout`. `fetch` finds up to `size` traces; `add` returns the bytes that the request holds in all. A step that the store cancels
 * for being slow is repeated with the fewest traces; if it is slow again, the walk ends there, unless it is the first one.
 */
export async function walkTraces<Item>(
  { read, reads: { limits }, exchange: { clock } }: Walking,
  fetch: (cursor: string | undefined, size: number) => Promise<StepPage<Item>>,
  add: (item: Item) => number,
  measure: () => () => number = workClock,
): Promise<Walked> {
  const end = clock.now() + limits.page_timeout;
  let cursor: string | undefined;
  let size = SEARCHED_TRACES;
  const budget = limits.page_time * SHARE_OF_SUMS;
  let spent = 0;
  let seenTo: Instant | null = null;
  while (true) {
    const step = await fetched(read.turn(() => fetch(cursor, size)));
    if (step instanceof RetryableError) {
      if (size > SMALLEST_STEP) {
        size = SMALLEST_STEP;
        continue;
      }
      if (cursor === undefined) throw step;
      return { isPartial: true, searchedTo: seenTo };
    }
    const { items, nextCursor, searchedTo, spentMs } = step;
    let bytes = 0;
    const adding = measure();
    for (const item of items) bytes = add(item);
    const workMs = spentMs + adding();
    read.hold(bytes);
    spent += workMs;
    if (nextCursor === null) return { isPartial: false, searchedTo: null };
    if (spent >= budget || clock.now() >= end) return { isPartial: true, searchedTo };
    size = nextSize(size, workMs, budget - spent);
    cursor = nextCursor;
    seenTo = searchedTo;
  }
}
