import type { Query } from '../query/query.ts';
import type { FoundGroup, GroupField, GroupStore, StartedGroup } from '../store/groups.ts';
import { groupTerm } from '../store/plan/groups.ts';
import { GroupTotals } from '../store/rows/group-rows.ts';
import type { Place } from '../store/rows/place.ts';
import { BEFORE_NEWEST, cursorOf, placeOfCursor } from '../store/rows/place.ts';
import { SEARCHED_TRACES } from '../store/rows/trace-page.ts';
import type { SteppedPage } from './listing.ts';
import { nextSize, STEP_MS } from './listing.ts';

/** About the memory of the id of a session that a user's sums have seen. */
const ID_BYTES = 256;

/** Groups that a store starts at once. Without a query none of their traces is looked at for nothing. */
const SMALLEST_BATCH = 4;
const FIRST_BATCH = 8;
const LARGEST_BATCH = 32;
/** The traces of each group that its start looks at: a batch looks at no more than a step of a search may. */
const STARTED_TRACES = 128;

/** Part of a page's budget for the sums of one group: a large one leaves room for others. */
const GROUP_SHARE = 1 / 4;

/** The groups of a list. */
export type GroupSource = {
  readonly groups: GroupStore;
  readonly projectId: string;
  readonly by: GroupField;
  /** The traces that count. */
  readonly query: Query;
  /** Throws if the memory is short. */
  grow(bytes: number): void;
};

export type GroupItem = {
  readonly value: string;
  /** The user of the newest trace. */
  readonly userId: string | null;
  readonly totals: GroupTotals;
  /** The sums are over the newest traces only: the rest did not fit into the budget. */
  readonly isPartial: boolean;
};

/** The sums of a group, which are made in steps. */
export class GroupSumming {
  readonly totals = new GroupTotals();
  readonly value: string;
  readonly #source: GroupSource;
  #after: Place | null = null;
  #size = SEARCHED_TRACES;
  #isWhole = false;
  #spentMs = 0;

  /** `started`: its first step, if that was made. */
  constructor(source: GroupSource, value: string, started?: StartedGroup) {
    this.#source = source;
    this.value = value;
    if (started === undefined) return;
    this.totals.add(started.sums);
    this.#after = started.next;
    this.#isWhole = started.next === null;
  }

  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Milliseconds of the store's work. */
  get spentMs(): number {
    return this.#spentMs;
  }

  /** Returns the milliseconds of the store's work for this step. */
  async step(): Promise<number> {
    const { groups, projectId, by, query, grow } = this.#source;
    const look = { by, query, after: this.#after, size: this.#size };
    const { sums, next, spentMs } = await groups.sumGroup(projectId, this.value, look);
    grow(sums.sessions.length * ID_BYTES);
    this.totals.add(sums);
    this.#after = next;
    this.#size = nextSize(this.#size, spentMs);
    this.#isWhole = next === null;
    this.#spentMs += spentMs;
    return spentMs;
  }
}

/**
 * The search for an earlier page that has a group, in the traces of the group before the page. It is made in steps, and the cursor of a
 * page that ends before the search does has its place: a group may have any number of newer traces that do not match.
 */
type EarlierSearch = {
  /** The number of the trace at which the walk came across the group. */
  readonly foundAt: number;
  /** The last trace that the search looked at. */
  after: Place | null;
  size: number;
};

/**
 * The groups of one page, the one with the newest trace first. A walk over the traces, newest first, comes across each group at its
 * newest trace; the sums follow, of one group after the other:
 *
 *   walk: groups of a step ─▶ listed on this page, or on an earlier one? ─▶ sums, step by step ─▶ item
 *
 * A store of which each call costs a round trip makes the first steps of several groups at once, which decide most of both.
 *
 * A group whose search or sums take longer than a turn is continued by the next turn. It gets the sums so far after a part of the page's
 * budget; a search that the page does not end is continued by the next page.
 */
export class GroupPage {
  readonly #source: GroupSource;
  /** The page begins behind it. */
  readonly #first: Place | null;
  /** Milliseconds of the store's work for the page, and for the sums of one group. */
  readonly #pageMs: number;
  readonly #groupMs: number;
  readonly #seen = new Set<string>();
  /** The first steps of groups that the walk comes across next. */
  readonly #started = new Map<string, StartedGroup>();
  /** Groups that the next call starts. */
  #batch: number;
  #search: EarlierSearch | undefined;
  #open: GroupSumming | undefined;
  #hasGroups = false;
  #spentMs = 0;

  constructor(source: GroupSource, cursor: string | undefined, budgetMs: number) {
    const { place, search } = positionOf(cursor);
    this.#source = source;
    this.#first = place;
    this.#search = search;
    this.#pageMs = budgetMs;
    this.#groupMs = budgetMs * GROUP_SHARE;
    this.#batch = source.query.terms.length === 0 ? LARGEST_BATCH : FIRST_BATCH;
  }

  /** One turn. It ends with the budget of the page, but the first group that no earlier page has is listed in any case. */
  async fetch(
    limit: number,
    cursor: string | undefined,
    size: number,
  ): Promise<SteppedPage<GroupItem>> {
    const { groups, projectId, by, query } = this.#source;
    const before = this.#spentMs;
    const { place: after } = positionOf(cursor);
    const step = await groups.findGroups(projectId, { by, query, after, size });
    this.#spentMs += step.spentMs;
    const end = Math.min(before + STEP_MS, this.#pageMs);
    const items: GroupItem[] = [];
    const places: Place[] = [];
    let handled = after;
    for (const [i, { value, userId, place }] of step.groups.entries()) {
      if (!this.#seen.has(value)) {
        const isOver = this.#spentMs >= end && !this.#isReady(value);
        if (items.length === limit || (items.length > 0 && isOver)) {
          return this.#page(items, places, handled ?? BEFORE_NEWEST, before);
        }
        await this.#start(step.groups.slice(i), limit - items.length);
        const isListed = this.#open?.value !== value && (await this.#isListed(value, place, end));
        if (isListed === undefined) {
          return this.#page(items, places, handled ?? BEFORE_NEWEST, before);
        }
        if (isListed) this.#seen.add(value);
        else {
          const totals = await this.#summed(
            value,
            this.#hasGroups ? end : Number.POSITIVE_INFINITY,
          );
          if (totals === undefined) {
            return this.#page(items, places, handled ?? BEFORE_NEWEST, before);
          }
          this.#seen.add(value);
          this.#hasGroups = true;
          items.push({ value, userId, ...totals });
          places.push(place);
        }
      }
      handled = place;
    }
    return this.#page(items, places, step.next, before);
  }

  /** Makes the first steps of the next groups of the walk, in a store that makes several at once. */
  async #start(following: readonly FoundGroup[], most: number): Promise<void> {
    const { groups, projectId, by, query, grow } = this.#source;
    const [first] = following;
    if (groups.startGroups === undefined || first === undefined) return;
    if (this.#started.has(first.value) || this.#open?.value === first.value) return;
    // Its search has a place of its own.
    if (this.#search?.foundAt === first.place.n) return;
    const values = following
      .map(({ value }) => value)
      .filter((value) => !this.#seen.has(value) && !this.#started.has(value))
      .slice(0, Math.min(this.#batch, most));
    const size = STARTED_TRACES;
    const { started, spentMs } = await groups.startGroups(projectId, values, { by, query, size });
    for (const one of started) {
      grow(one.sums.sessions.length * ID_BYTES);
      this.#started.set(one.value, one);
    }
    this.#spentMs += spentMs;
    if (spentMs <= STEP_MS) this.#batch = Math.min(this.#batch * 2, LARGEST_BATCH);
    else this.#batch = Math.max(this.#batch / 2, SMALLEST_BATCH);
  }

  /** Whether its first step says all about the group: that an earlier page has it, or its sums. */
  #isReady(value: string): boolean {
    const started = this.#started.get(value);
    if (started === undefined) return false;
    const { newest, next } = started;
    const first = this.#first;
    if (first === null) return next === null;
    return newest !== null && (next === null || !isBehind(newest, first));
  }

  #page(
    items: readonly GroupItem[],
    places: readonly Place[],
    next: Place | null,
    before: number,
  ): SteppedPage<GroupItem> {
    return {
      items,
      nextCursor: next === null ? null : cursorAt(next, this.#search),
      searchedTo: next === null || next.n === BEFORE_NEWEST.n ? null : { ms: next.ms, ns: next.ns },
      spentMs: this.#spentMs - before,
      cursorAfter(item) {
        const place = places[item];
        if (place === undefined) throw new RangeError(`the page has no item ${item}`);
        return cursorOf(place);
      },
    };
  }

  /**
   * Whether an earlier page has the group: it does if the newest trace of the group is before this page. Undefined if the search has not
   * ended when the page has spent `endMs`.
   */
  async #isListed(value: string, { n }: Place, endMs: number): Promise<boolean | undefined> {
    const { groups, projectId, by, query } = this.#source;
    const first = this.#first;
    if (first === null) return false;
    const started = this.#started.get(value);
    if (started !== undefined && started.newest !== null) {
      this.#search = undefined;
      return !isBehind(started.newest, first);
    }
    const terms = [groupTerm(by, value), ...query.terms];
    const search =
      this.#search?.foundAt === n
        ? this.#search
        : { foundAt: n, after: started?.next ?? null, size: SEARCHED_TRACES };
    this.#search = search;
    do {
      const { after, size } = search;
      const step = await groups.findGroups(projectId, { by, query: { terms }, after, size });
      this.#spentMs += step.spentMs;
      const [newest] = step.groups;
      if (newest !== undefined || step.next === null || isBehind(step.next, first)) {
        this.#search = undefined;
        return newest !== undefined && !isBehind(newest.place, first);
      }
      search.after = step.next;
      search.size = nextSize(size, step.spentMs);
    } while (this.#spentMs < endMs);
    return undefined;
  }

  /** Undefined if the sums are not whole when the page has spent `endMs`. */
  async #summed(
    value: string,
    endMs: number,
  ): Promise<Pick<GroupItem, 'totals' | 'isPartial'> | undefined> {
    const summing: GroupSumming =
      this.#open?.value === value
        ? this.#open
        : new GroupSumming(this.#source, value, this.#started.get(value));
    this.#started.delete(value);
    if (summing.isWhole) return { totals: summing.totals, isPartial: false };
    this.#open = summing;
    do {
      this.#spentMs += await summing.step();
      if (summing.isWhole || summing.spentMs >= this.#groupMs) {
        this.#open = undefined;
        return { totals: summing.totals, isPartial: !summing.isWhole };
      }
    } while (this.#spentMs < endMs);
    return undefined;
  }
}

function isBehind(place: Place, first: Place): boolean {
  return (place.ms - first.ms || place.ns - first.ns || place.n - first.n) < 0;
}

/** Between the parts of a cursor. */
const BETWEEN = '.';

function cursorAt(place: Place, search: EarlierSearch | undefined): string {
  if (search === undefined || search.after === null) return cursorOf(place);
  return [cursorOf(place), search.foundAt, cursorOf(search.after)].join(BETWEEN);
}

/** Throws `StoreError` for a cursor of another kind. */
function positionOf(cursor: string | undefined): {
  readonly place: Place | null;
  readonly search: EarlierSearch | undefined;
} {
  const [place, foundAt, after] = cursor?.split(BETWEEN) ?? [];
  return {
    place: placeOfCursor(place),
    search:
      foundAt === undefined
        ? undefined
        : {
            foundAt: Number(foundAt),
            after: placeOfCursor(after),
            size: SEARCHED_TRACES,
          },
  };
}
