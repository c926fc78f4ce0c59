import { z } from 'zod';
import type { Clock } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';
import type { Instant } from '../model/observation.ts';
import type { Query, QueryTerm } from '../query/query.ts';
import type { RankedTrace, RankField, RankLook, RankStore } from '../store/ranking.ts';
import { compareRanks } from '../store/ranking.ts';
import type { Place } from '../store/rows/place.ts';
import { SEARCHED_TRACES } from '../store/rows/trace-page.ts';
import type { StoredTrace } from '../store/store.ts';
import { foreignCursor } from './list-cursor.ts';
import type { SteppedPage } from './listing.ts';
import { nextSize } from './listing.ts';
import { startTerm } from './query.ts';
import type { ReadLimits } from './reads.ts';

/** The range of a sorted list that names none. */
const DEFAULT_RANGE_MS = 24 * 3_600_000;

/** The order of a list of traces. */
export type RankOrder = { readonly by: RankField; readonly isAscending: boolean };

type RankedPageParts = RankOrder & {
  readonly ranks: RankStore;
  readonly projectId: string;
  readonly query: Query;
  readonly limit: number;
  readonly limits: Pick<ReadLimits, 'page_time' | 'page_timeout'>;
  readonly clock: Clock;
  /** Traces of the first step of the search. */
  readonly size?: number;
};

/** A part of the range of time, and the traces in it that are still to come. */
type TimeWindow = {
  /** The newest place, exclusive, and the oldest one, inclusive; null at the end of the range. */
  readonly top: Place | null;
  readonly bottom: Place | null;
  /** The last trace that was listed; null before the first one. */
  readonly behind: RankedTrace | null;
};

/** Where a page begins: its windows, newest first, and the beginning of the range if the query names none. */
type Position = { readonly since: number | null; readonly windows: readonly TimeWindow[] };

/**
 * A page of traces in the order of a value. It looks at the traces of a window of time, newest first, and keeps the first ones by value:
 *
 *   window ─▶ steps, until the window ends or the budget does ─▶ first ones by value ─▶ rows, in chunks
 *
 * If the budget ends first, the window is cut: the page has the first ones of its newer part, and the older part is a window of its own,
 * which follows when the newer one has been listed whole. So the pages together list every trace once.
 */
export class RankedPage {
  readonly #parts: RankedPageParts;
  readonly #query: Query;
  readonly #since: number | null;
  readonly #deadline: number;
  #window: TimeWindow;
  #rest: readonly TimeWindow[];
  /** The place up to which the steps have looked. */
  #after: Place | null;
  #size: number;
  #spentMs = 0;
  #isSearched = false;
  /** The first ones by value, in their order, one more than the page has. */
  #found: RankedTrace[] = [];
  #listed = 0;

  /** Throws a `Refusal` for a cursor of another form. */
  constructor(parts: RankedPageParts, cursor: string | undefined) {
    const { query, clock, limits, size = SEARCHED_TRACES } = parts;
    const now = clock.now();
    const { since, windows } = positionOf(cursor) ?? {
      since: query.terms.some(isRange) ? null : now - DEFAULT_RANGE_MS,
      windows: [{ top: null, bottom: null, behind: null }],
    };
    const [window, ...rest] = windows;
    if (window === undefined) throw foreignCursor();
    this.#parts = parts;
    this.#size = size;
    this.#since = since;
    this.#query = since === null ? query : { terms: [...query.terms, startsAt(since)] };
    this.#deadline = now + limits.page_timeout;
    this.#window = window;
    this.#rest = rest;
    this.#after = window.top;
  }

  /** The time down to which the list is sorted; null for the whole range. */
  get sortedTo(): Instant | null {
    const { bottom } = this.#window;
    return bottom === null ? null : { ms: bottom.ms, ns: bottom.ns };
  }

  /** One step of the search, or the next rows. */
  async fetch(rows: number): Promise<SteppedPage<StoredTrace>> {
    if (!this.#isSearched) await this.#search();
    if (this.#isSearched) return this.#rows(rows);
    // The same page: a search that has not ended lists nothing.
    const nextCursor = this.#cursorOf([this.#window, ...this.#rest]);
    return { items: [], nextCursor, cursorAfter: () => nextCursor };
  }

  async #search(): Promise<void> {
    const { ranks, projectId, by, isAscending, limit, limits, clock } = this.#parts;
    const isFull = this.#found.length > limit;
    const look: RankLook = {
      ...{ by, isAscending, limit, query: this.#query, size: this.#size },
      ...{ after: this.#after, until: this.#window.bottom, behind: this.#window.behind },
      before: isFull ? (this.#found.at(-1) ?? null) : null,
    };
    const step = await this.#unlessSlow(ranks.rankTraces(projectId, look));
    if (step === undefined) return this.#cut(this.#after);
    const all = [...this.#found, ...step.traces];
    this.#found = all.sort((a, b) => compareRanks(a, b, isAscending)).slice(0, limit + 1);
    this.#after = step.next;
    this.#spentMs += step.spentMs;
    this.#size = nextSize(this.#size, step.spentMs, limits.page_time - this.#spentMs);
    if (step.next === null || isSamePlace(step.next, this.#window.bottom)) this.#isSearched = true;
    else if (this.#spentMs >= limits.page_time || clock.now() >= this.#deadline) {
      this.#cut(step.next);
    }
  }

  /** Undefined for a step that the store cancels for being slow, unless it is the first one. */
  async #unlessSlow<Step>(step: Promise<Step>): Promise<Step | undefined> {
    try {
      return await step;
    } catch (error) {
      const isSlow = error instanceof RetryableError && error.code === 'query_timeout';
      if (isSlow && this.#after !== this.#window.top) return undefined;
      throw error;
    }
  }

  #cut(place: Place | null): void {
    this.#rest = [{ ...this.#window, top: place }, ...this.#rest];
    this.#window = { ...this.#window, bottom: place };
    this.#isSearched = true;
  }

  async #rows(count: number): Promise<SteppedPage<StoredTrace>> {
    const { ranks, projectId, limit } = this.#parts;
    const listed = this.#found.slice(this.#listed, Math.min(this.#listed + count, limit));
    const traces = await ranks.tracesOf(
      projectId,
      listed.map(({ n }) => n),
    );
    this.#listed += listed.length;
    // Without those that were removed since.
    const shown = listed.filter(({ n }) => traces.has(n));
    const items = shown.flatMap(({ n }) => traces.get(n) ?? []);
    const behind = (trace: RankedTrace | undefined): string =>
      this.#cursorOf([{ ...this.#window, behind: trace ?? this.#window.behind }, ...this.#rest]);
    const cursorAfter = (item: number): string => behind(shown[item]);
    const isWhole = this.#listed === this.#found.length;
    if (isWhole && this.#rest.length === 0) return { items, nextCursor: null, cursorAfter };
    const next = isWhole ? this.#cursorOf(this.#rest) : behind(this.#found[this.#listed - 1]);
    const isEnd = isWhole || this.#listed === limit;
    return { items, nextCursor: next, cursorAfter, spentMs: isEnd ? END_OF_PAGE : 0 };
  }

  #cursorOf(windows: readonly TimeWindow[]): string {
    const position: Position = { since: this.#since, windows };
    return Buffer.from(JSON.stringify(position)).toString('base64url');
  }
}

/** As much work as ends a page, whose next one begins in another window. */
const END_OF_PAGE = Number.POSITIVE_INFINITY;

const integer = z.int();
const place = z.strictObject({ ms: integer, ns: integer, n: integer });
const position = z.strictObject({
  since: integer.nullable(),
  windows: z
    .array(
      z.strictObject({
        top: place.nullable(),
        bottom: place.nullable(),
        behind: place.extend({ value: z.number() }).nullable(),
      }),
    )
    .min(1),
});

/** Throws a `Refusal` for a cursor of another form. */
function positionOf(cursor: string | undefined): Position | undefined {
  if (cursor === undefined) return undefined;
  try {
    return position.parse(JSON.parse(Buffer.from(cursor, 'base64url').toString()));
  } catch (error) {
    throw foreignCursor(error);
  }
}

/** The number alone is not the place: the trace may have moved to another time since the window was cut. */
function isSamePlace(one: Place, other: Place | null): boolean {
  return other !== null && one.ms === other.ms && one.ns === other.ns && one.n === other.n;
}

function isRange(term: QueryTerm): boolean {
  return term.type === 'times' && !term.negated;
}

function startsAt(ms: number): QueryTerm {
  return startTerm({ from: { ms, ns: 0 }, to: null, text: '' });
}
