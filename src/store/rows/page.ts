import type { Page } from '../store.ts';
import { PAGE_BYTES } from '../store.ts';
import type { Place } from './place.ts';
import { cursorOf } from './place.ts';

/** The rows of one page. */
export type FoundRows<Row> = {
  readonly rows: readonly Row[];
  /** There are further rows. */
  readonly hasMore: boolean;
};

/** Takes rows up to the limit and about `PAGE_BYTES`, and at least one. The statement finds one row beyond the limit. */
export function takeRows<Row>(
  found: Iterable<Row>,
  limit: number,
  bytesOf: (row: Row) => number,
): FoundRows<Row> {
  const rows: Row[] = [];
  let bytes = 0;
  for (const row of found) {
    bytes += bytesOf(row);
    if (rows.length === limit || (rows.length > 0 && bytes > PAGE_BYTES)) {
      return { rows, hasMore: true };
    }
    rows.push(row);
  }
  return { rows, hasMore: false };
}

/** `next`: the place behind which the next page begins; by default behind the last row, if there are further ones. */
export function pageOfRows<Row, Item>(
  { rows, hasMore }: FoundRows<Row>,
  placeOf: (row: Row) => Place,
  itemOf: (row: Row) => Item,
  next?: Place | null,
): Page<Item> {
  const cursorAfter = (item: number): string => {
    const row = rows[item];
    if (row === undefined) throw new RangeError(`the page has no item ${item}`);
    return cursorOf(placeOf(row));
  };
  const behind = next === undefined || next === null ? null : cursorOf(next);
  return {
    items: rows.map(itemOf),
    nextCursor: hasMore ? cursorAfter(rows.length - 1) : behind,
    cursorAfter,
  };
}
