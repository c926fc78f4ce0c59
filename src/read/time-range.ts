import type { Instant } from '../model/observation.ts';
import { HOUR_MS } from '../model/usage-window.ts';
import type { Query } from '../query/query.ts';
import type { Hours } from '../store/rollups/reading.ts';
import { instantOf, invalidParameter } from './query.ts';

export const DAY_MS = 24 * HOUR_MS;

/** Milliseconds since the epoch; `to` is exclusive. */
export type StepRange = { readonly from: number; readonly to: number };

/**
 * The range of `from` and `to`, widened to whole steps. `to` is now by default, and `from` so much earlier. Throws a `Refusal`
 * (400) for an empty range.
 */
export function widenedRange(
  query: URLSearchParams,
  {
    now,
    byDefault,
    step,
  }: { readonly now: number; readonly byDefault: number; readonly step: number },
): StepRange {
  const [first, last] = [instantOf(query, 'from'), instantOf(query, 'to')];
  const to = last === undefined ? now : milliseconds(last);
  const from = first === undefined ? to - byDefault : first.ms;
  if (from >= to) throw invalidParameter('from', 'must be before to');
  return { from: Math.floor(from / step) * step, to: Math.ceil(to / step) * step };
}

/** A fraction of a millisecond counts as a whole one. */
function milliseconds({ ms, ns }: Instant): number {
  return ns === 0 ? ms : ms + 1;
}

export function hoursOf({ from, to }: StepRange): Hours {
  return { from: from / HOUR_MS, to: to / HOUR_MS };
}

/** The traces of a query that start within a range. */
export function startedWithin({ terms }: Query, { from, to }: StepRange): Query {
  const about = { field: 'start', key: null, negated: false, position: 0 } as const;
  const range = { from: { ms: from, ns: 0 }, to: { ms: to, ns: 0 }, text: '' };
  return { terms: [...terms, { type: 'times', ...about, ranges: [range] }] };
}
