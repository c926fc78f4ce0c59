import type { Instant } from '../model/observation.ts';
import { SEARCHED_TRACES } from '../store/rows/trace-page.ts';
import type { StepPage } from '../store/rows/walked-page.ts';
import { nextSize } from './listing.ts';
import type { StoreReading } from './stored-request.ts';

/** The end of a walk. */
export type Walked = {
  /** The work of the store ended the walk: it has seen the traces down to `searchedTo`. */
  readonly isPartial: boolean;
  readonly searchedTo: Instant | null;
};

/**
 * Walks over all traces that match, newest first, each step in a turn of its own, until `page_time` of the store's work.
 * `fetch` finds up to `size` traces; `add` returns the bytes that the request holds in all.
 */
export async function walkTraces<Item>(
  { read, reads: { limits } }: StoreReading,
  fetch: (cursor: string | undefined, size: number) => Promise<StepPage<Item>>,
  add: (item: Item) => number,
): Promise<Walked> {
  let cursor: string | undefined;
  let size = SEARCHED_TRACES;
  let spent = 0;
  while (true) {
    const { items, nextCursor, searchedTo, spentMs } = await read.turn(() => fetch(cursor, size));
    let bytes = 0;
    for (const item of items) bytes = add(item);
    read.hold(bytes);
    spent += spentMs;
    if (nextCursor === null) return { isPartial: false, searchedTo: null };
    if (spent >= limits.page_time) return { isPartial: true, searchedTo };
    size = nextSize(size, spentMs);
    cursor = nextCursor;
  }
}
