import type { Instant } from '../../model/observation.ts';
import type { FoundRows } from '../rows/page.ts';
import type { Place } from '../rows/place.ts';
import { cursorOf } from '../rows/place.ts';
import type { Contribution } from './contribution.ts';
import { contributionFromText } from './contribution.ts';

/** The place of a trace in listings, and the column `rollup`. */
export type ContributedRow = readonly [ms: number, ns: number, n: number, rollup: string | null];

/** The rows that a step of a search found; `end` is the place of the last trace it looked at, null behind the last trace. */
export type ContributionStep = FoundRows<ContributedRow> & {
  readonly end: Place | null;
  readonly spentMs: number;
};

/** Contributions of traces, for sums that rollups do not have. */
export type ContributionPage = {
  readonly items: readonly ContributedTrace[];
  readonly nextCursor: string | null;
  /** The time of the last trace that the step looked at; null behind the last trace of all. */
  readonly searchedTo: Instant | null;
  /** Milliseconds of work of the store. */
  readonly spentMs: number;
};

export type ContributedTrace = {
  /** The time that orders listings, in milliseconds since the epoch. */
  readonly at: number;
  readonly contribution: Contribution;
};

/** The columns of a `ContributedRow`, in its order. */
export const CONTRIBUTED_COLUMNS = 't.at_ms, t.at_ns, t.n, t.rollup';

export function contributedBytes([, , , rollup]: ContributedRow): number {
  return rollup?.length ?? 0;
}

/** Traces that have not contributed yet are left out, as rollups do not have them either. */
export function contributionPage({
  rows,
  hasMore,
  end,
  spentMs,
}: ContributionStep): ContributionPage {
  const items: ContributedTrace[] = [];
  for (const [at, , , rollup] of rows) {
    if (rollup !== null) items.push({ at, contribution: contributionFromText(rollup) });
  }
  const last = rows.at(-1);
  const place = hasMore && last !== undefined ? placeOf(last) : end;
  return {
    items,
    nextCursor: place === null ? null : cursorOf(place),
    searchedTo: place === null ? null : { ms: place.ms, ns: place.ns },
    spentMs,
  };
}

function placeOf([ms, ns, n]: ContributedRow): Place {
  return { ms, ns, n };
}
