import type { Clock } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';
import type { Instant } from '../model/observation.ts';
import { SEARCHED_TRACES } from '../store/rows/trace-page.ts';
import type { Page } from '../store/store.ts';
import type { JsonAnswer } from './answer.ts';
import type { Read, ReadLimits } from './reads.ts';

/** Rows of one step: a turn at the store, and the rows in memory at once. */
const STEP_ROWS = 200;
/** The work of one step of a search that its size aims at, in milliseconds. */
export const STEP_MS = 20;
/** The fewest traces that a step of a search looks at. */
export const SMALLEST_STEP = 32;
const LARGEST_STEP = 4096;

/** A page of a list whose work is bounded. */
export type SteppedPage<Item> = Page<Item> & {
  readonly searchedTo?: Instant | null;
  readonly spentMs?: number;
};

/** The items of a page, in steps. */
export type Listing<Item> = {
  readonly limit: number;
  readonly cursor: string | undefined;
  /** `size`: the items that a search looks at. */
  fetch(limit: number, cursor: string | undefined, size: number): Promise<SteppedPage<Item>>;
  render(item: Item): Promise<string> | string;
};

/** The end of a page. */
export type Written = {
  /** The cursor of the next page; null after the last one. */
  readonly next: string | null;
  /** The work of the store ended the page: it has all that was found down to `searchedTo`. */
  readonly isPartial: boolean;
  readonly searchedTo: Instant | null;
};

type Conditions = {
  readonly read: Read;
  readonly limits: Pick<ReadLimits, 'page_bytes' | 'page_time' | 'page_timeout'>;
  readonly clock: Clock;
};

/**
 * Writes the items of a page, each step in a turn of its own, so that neither a page nor a search without a match
 * holds the store or the memory. The page ends at its limit, at `page_bytes` after the first item, after `page_timeout`, after
 * `page_time` of the store's work, and in front of a step that the store cancels for being slow, unless that is the first one.
 *
 *   turn: rows of one step ─▶ render ─▶ write, at the pace of the client ─▶ next step
 */
export async function writeItems<Item>(
  out: JsonAnswer,
  { limit, cursor: first, fetch, render }: Listing<Item>,
  { read, limits, clock }: Conditions,
): Promise<Written> {
  const end = clock.now() + limits.page_timeout;
  let written = 0;
  let characters = 0;
  let spent = 0;
  let size = SEARCHED_TRACES;
  let cursor: string | undefined = first;
  let searchedTo: Instant | null = null;
  while (true) {
    const rows = Math.min(STEP_ROWS, limit - written);
    const page = await fetched(read.turn(() => fetch(rows, cursor, size)));
    if (page instanceof RetryableError) {
      if (cursor === undefined || cursor === first) throw page;
      return { next: cursor, isPartial: true, searchedTo };
    }
    for (const [i, item] of page.items.entries()) {
      const rendered = render(item);
      const text = typeof rendered === 'string' ? rendered : await rendered;
      characters += text.length;
      const sent = out.add(written === 0 ? text : `,${text}`);
      // Hot path: most items wait for nothing.
      if (sent !== undefined) await sent;
      written++;
      const isLast = i === page.items.length - 1;
      if (!isLast && (characters >= limits.page_bytes || clock.now() >= end)) {
        return whole(page.cursorAfter(i));
      }
    }
    const { nextCursor, spentMs = 0 } = page;
    searchedTo = page.searchedTo ?? null;
    spent += spentMs;
    if (nextCursor === null || written >= limit) return whole(nextCursor);
    if (spent >= limits.page_time) return { next: nextCursor, isPartial: true, searchedTo };
    if (characters >= limits.page_bytes || clock.now() >= end) return whole(nextCursor);
    size = nextSize(size, spentMs, limits.page_time - spent);
    cursor = nextCursor;
  }
}

function whole(next: string | null): Written {
  return { next, isPartial: false, searchedTo: null };
}

/**
 * Larger while steps are cheap, so that a search without a match costs little a trace; smaller while they are expensive, and
 * in front of the end of the budget, of which `leftMs` is left.
 */
export function nextSize(size: number, spentMs: number, leftMs = Number.POSITIVE_INFINITY): number {
  let next = size;
  if (spentMs * 2 <= STEP_MS) next = Math.min(size * 2, LARGEST_STEP);
  else if (spentMs > STEP_MS) next = size / 2;
  const fitting = spentMs > 0 ? Math.floor((size * leftMs) / spentMs) : next;
  return Math.max(SMALLEST_STEP, Math.min(next, fitting));
}

/** The step, or the error of a statement that the store cancelled for being slow. */
export async function fetched<Step>(step: Promise<Step>): Promise<Step | RetryableError> {
  try {
    return await step;
  } catch (error) {
    if (error instanceof RetryableError && error.code === 'query_timeout') return error;
    throw error;
  }
}
