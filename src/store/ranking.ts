import type { Query } from '../query/query.ts';
import type { Place } from './rows/place.ts';
import type { StoredTrace } from './store.ts';

/** The values by which traces are sorted, beside their time. */
export const RANK_FIELDS = ['latency', 'cost', 'tokens'] as const;
export type RankField = (typeof RANK_FIELDS)[number];

/** A trace without the value is last, in both orders. Traces of the same value are in the order of time. */
export type RankedTrace = Place & {
  /** The value, or a number behind all values. */
  readonly value: number;
};

/** One step over traces, newest first, that finds the first ones by their values. */
export type RankLook = {
  readonly by: RankField;
  readonly isAscending: boolean;
  readonly query: Query;
  /** The most traces that the step finds. */
  readonly limit: number;
  /** The step begins behind this place in time, and ends with the other one. */
  readonly after: Place | null;
  readonly until: Place | null;
  /** The most traces that the step looks at. */
  readonly size: number;
  /** Only traces between these two, in the order of the values. */
  readonly behind: RankedTrace | null;
  readonly before: RankedTrace | null;
};

export type RankStep = {
  /** In the order of their values. */
  readonly traces: readonly RankedTrace[];
  /** The place of the last trace that the step looked at; null at the end of the traces, or at `until`. */
  readonly next: Place | null;
  /** Milliseconds of work of the store. */
  readonly spentMs: number;
};

export type RankStore = {
  rankTraces(projectId: string, look: RankLook): Promise<RankStep>;
  /** Traces by number, without those that are gone. */
  tracesOf(
    projectId: string,
    numbers: readonly number[],
  ): Promise<ReadonlyMap<number, StoredTrace>>;
};

/** Negative if the first one comes first. */
export function compareRanks(a: RankedTrace, b: RankedTrace, isAscending: boolean): number {
  const difference = a.value - b.value || a.ms - b.ms || a.ns - b.ns || a.n - b.n;
  return isAscending ? difference : -difference;
}
