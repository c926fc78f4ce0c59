import type { Clock } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';
import type { Page } from '../store/store.ts';
import type { JsonAnswer } from './answer.ts';
import type { Read, ReadLimits } from './reads.ts';

/** Rows of one step: a turn at the store, and the rows in memory at once. */
const STEP_ROWS = 200;

/** The items of a page, in steps. */
export type Listing<Item> = {
  readonly limit: number;
  readonly cursor: string | undefined;
  fetch(limit: number, cursor: string | undefined): Promise<Page<Item>>;
  render(item: Item): Promise<string> | string;
};

type Conditions = {
  readonly read: Read;
  readonly limits: Pick<ReadLimits, 'page_bytes' | 'page_time'>;
  readonly clock: Clock;
};

/**
 * Writes the items of a page, each step in a turn of its own, so that neither a page nor a search without a match
 * holds the store or the memory. The page ends at its limit, at `page_bytes` after the first item, after `page_time`, and
 * in front of a step that the store cancels for being slow, unless that is the first one. Resolves with the cursor of the next page, or null after the last one.
 *
 *   turn: rows of one step ─▶ render ─▶ write, at the pace of the client ─▶ next step
 */
export async function writeItems<Item>(
  out: JsonAnswer,
  { limit, cursor: first, fetch, render }: Listing<Item>,
  { read, limits, clock }: Conditions,
): Promise<string | null> {
  const end = clock.now() + limits.page_time;
  let written = 0;
  let characters = 0;
  let cursor: string | undefined = first;
  while (true) {
    const rows = Math.min(STEP_ROWS, limit - written);
    const page = await fetched(read.turn(() => fetch(rows, cursor)));
    if (page instanceof RetryableError) {
      if (cursor === undefined || cursor === first) throw page;
      return cursor;
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
        return page.cursorAfter(i);
      }
    }
    if (page.nextCursor === null || written >= limit) return page.nextCursor;
    if (characters >= limits.page_bytes || clock.now() >= end) return page.nextCursor;
    cursor = page.nextCursor;
  }
}

/** The page, or the error of a statement that the store cancelled for being slow. */
async function fetched<Item>(step: Promise<Page<Item>>): Promise<Page<Item> | RetryableError> {
  try {
    return await step;
  } catch (error) {
    if (error instanceof RetryableError && error.code === 'query_timeout') return error;
    throw error;
  }
}
