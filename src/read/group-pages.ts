import type { Query } from '../query/query.ts';
import type { GroupField, GroupStore } from '../store/groups.ts';
import { groupTerm } from '../store/plan/groups.ts';
import { GroupTotals } from '../store/rows/group-rows.ts';
import type { Place } from '../store/rows/place.ts';
import { BEFORE_NEWEST, cursorOf, placeOfCursor } from '../store/rows/place.ts';
import type { SteppedPage } from './listing.ts';
import { STEP_MS } from './listing.ts';

/** Traces that one statement sums over. */
const SUMMED_TRACES = 2048;
/** About the memory of the id of a session that a user's sums have seen. */
const ID_BYTES = 256;

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
  #isWhole = false;
  #spentMs = 0;

  constructor(source: GroupSource, value: string) {
    this.#source = source;
    this.value = value;
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
    const look = { by, query, after: this.#after, size: SUMMED_TRACES };
    const { sums, next, spentMs } = await groups.sumGroup(projectId, this.value, look);
    grow(sums.sessions.length * ID_BYTES);
    this.totals.add(sums);
    this.#after = next;
    this.#isWhole = next === null;
    this.#spentMs += spentMs;
    return spentMs;
  }
}

/**
 * The groups of one page, the one with the newest trace first. A walk over the traces, newest first, comes across each group at its
 * newest trace; the sums follow, of one group after the other:
 *
 *   walk: groups of a step ─▶ listed on this page, or on an earlier one? ─▶ sums, step by step ─▶ item
 *
 * A group whose sums take longer than a turn is continued by the next turn, and gets the sums so far after a part of the page's budget.
 */
export class GroupPage {
  readonly #source: GroupSource;
  /** The page begins behind it. */
  readonly #first: Place | null;
  /** Milliseconds of the store's work for the page, and for the sums of one group. */
  readonly #pageMs: number;
  readonly #groupMs: number;
  readonly #seen = new Set<string>();
  #open: GroupSumming | undefined;
  #hasGroups = false;
  #spentMs = 0;

  constructor(source: GroupSource, cursor: string | undefined, budgetMs: number) {
    this.#source = source;
    this.#first = placeOfCursor(cursor);
    this.#pageMs = budgetMs;
    this.#groupMs = budgetMs * GROUP_SHARE;
  }

  /** One turn. It ends with the budget of the page, but the page has at least one group. */
  async fetch(
    limit: number,
    cursor: string | undefined,
    size: number,
  ): Promise<SteppedPage<GroupItem>> {
    const { groups, projectId, by, query } = this.#source;
    const before = this.#spentMs;
    const after = placeOfCursor(cursor);
    const step = await groups.findGroups(projectId, { by, query, after, size });
    this.#spentMs += step.spentMs;
    const end = Math.min(before + STEP_MS, this.#pageMs);
    const items: GroupItem[] = [];
    const places: Place[] = [];
    let handled = after;
    for (const { value, userId, place } of step.groups) {
      if (!this.#seen.has(value)) {
        if (items.length === limit || (items.length > 0 && this.#spentMs >= end)) {
          return this.#page(items, places, handled ?? BEFORE_NEWEST, before);
        }
        if (this.#open?.value !== value && (await this.#isListed(value))) this.#seen.add(value);
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

  #page(
    items: readonly GroupItem[],
    places: readonly Place[],
    next: Place | null,
    before: number,
  ): SteppedPage<GroupItem> {
    return {
      items,
      nextCursor: next === null ? null : cursorOf(next),
      searchedTo: next === null || next.n === BEFORE_NEWEST.n ? null : { ms: next.ms, ns: next.ns },
      spentMs: this.#spentMs - before,
      cursorAfter(item) {
        const place = places[item];
        if (place === undefined) throw new RangeError(`the page has no item ${item}`);
        return cursorOf(place);
      },
    };
  }

  /** Whether an earlier page has the group: it does if the newest trace of the group is before this page. */
  async #isListed(value: string): Promise<boolean> {
    const { groups, projectId, by, query } = this.#source;
    if (this.#first === null) return false;
    const terms = [groupTerm(by, value), ...query.terms];
    let after: Place | null = null;
    do {
      const look = { by, query: { terms }, after, size: SUMMED_TRACES };
      const step = await groups.findGroups(projectId, look);
      this.#spentMs += step.spentMs;
      const [newest] = step.groups;
      if (newest !== undefined) return !isBehind(newest.place, this.#first);
      after = step.next;
    } while (after !== null && !isBehind(after, this.#first));
    return false;
  }

  /** Undefined if the sums are not whole when the page has spent `endMs`. */
  async #summed(
    value: string,
    endMs: number,
  ): Promise<Pick<GroupItem, 'totals' | 'isPartial'> | undefined> {
    const summing: GroupSumming =
      this.#open?.value === value ? this.#open : new GroupSumming(this.#source, value);
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
