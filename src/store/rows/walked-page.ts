import type { Instant } from '../../model/observation.ts';
import type { FoundRows } from './page.ts';
import type { Place } from './place.ts';
import { cursorOf } from './place.ts';

/** A row of a walk over traces begins with the place of its trace in listings. */
export type WalkedRow = readonly [ms: number, ns: number, n: number, ...cells: unknown[]];

/** The rows that a step of a walk found; `end` is the place of the last trace it looked at, null behind the last trace. */
export type WalkedRows<Row extends WalkedRow> = FoundRows<Row> & {
  readonly end: Place | null;
  readonly spentMs: number;
};

/** The items of a step of a walk, at most one for each row. */
export type StepPage<Item> = {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
  /** The time of the last trace that the step looked at; null behind the last trace of all. */
  readonly searchedTo: Instant | null;
  /** Milliseconds of work of the store. */
  readonly spentMs: number;
};

/** Rows without an item are left out. */
export function walkedPage<Row extends WalkedRow, Item>(
  { rows, ...step }: WalkedRows<Row>,
  itemOf: (row: Row) => Item | undefined,
): StepPage<Item> {
  const items = rows.map(itemOf).filter((item) => item !== undefined);
  const last = rows.at(-1);
  return stepPage(items, { ...step, last: last && { ms: last[0], ns: last[1], n: last[2] } });
}

type StepEnd = Omit<WalkedRows<WalkedRow>, 'rows'> & {
  /** The place of the last row. */
  readonly last: Place | undefined;
};

export function stepPage<Item>(
  items: readonly Item[],
  { last, hasMore, end, spentMs }: StepEnd,
): StepPage<Item> {
  const place = hasMore && last !== undefined ? last : end;
  return {
    items,
    nextCursor: place === null ? null : cursorOf(place),
    searchedTo: place === null ? null : { ms: place.ms, ns: place.ns },
    spentMs,
  };
}
