import type { Instant } from '../../model/observation.ts';
import type { FieldName } from '../../query/fields.ts';
import type { Query, QueryTerm, TimeRange } from '../../query/query.ts';
import type { Lead } from './dialect.ts';

/**
 * The way to the traces of a query: one index leads, in the order of time, and every other term is a condition on the rows that it
 * finds.
 *
 *   terms ─┬─ start:…                     the range of time
 *          ├─ session:S, user:U, has:error, has:session, has:user  the leading index
 *          └─ all others                  conditions (conditions.ts)
 */
export type Plan = {
  readonly lead: Lead;
  /** The value that the leading index is searched for; null if it has no column of values. */
  readonly leadValue: string | null;
  readonly ranges: readonly TimeRange[];
  /** The terms that the range and the index do not answer. */
  readonly rest: readonly QueryTerm[];
};

export function planOf({ terms }: Query): Plan {
  const ranges: TimeRange[] = [];
  const others: QueryTerm[] = [];
  for (const term of terms) {
    if (term.type !== 'times' || term.negated) others.push(term);
    else if (term.ranges.length === 1) ranges.push(...term.ranges);
    else {
      ranges.push(hullOf(term.ranges));
      others.push(term);
    }
  }
  for (const { lead, field } of VALUE_LEADS) {
    const leading = others.find((term) => valueIn(term, field) !== undefined);
    if (leading === undefined) continue;
    const leadValue = valueIn(leading, field) ?? null;
    return { lead, leadValue, ranges, rest: others.filter((term) => term !== leading) };
  }
  if (others.some(isAboutFailed)) return { lead: 'failed', leadValue: null, ranges, rest: others };
  for (const { lead, field } of PRESENCE_LEADS) {
    const leading = others.find((term) => isPresence(term, field));
    if (leading === undefined) continue;
    return { lead, leadValue: null, ranges, rest: others.filter((term) => term !== leading) };
  }
  return { lead: 'time', leadValue: null, ranges, rest: others };
}

/** The fields with an index of their own, the rarest values first. */
const VALUE_LEADS: readonly { readonly lead: Lead; readonly field: FieldName }[] = [
  { lead: 'session', field: 'session' },
  { lead: 'user', field: 'user' },
];

/** The value if the term is the equality of the field with one. */
function valueIn(term: QueryTerm, field: FieldName): string | undefined {
  if (term.type !== 'values' || term.field !== field || term.negated) return undefined;
  const [first, ...more] = term.values;
  return first === undefined || first.isPrefix || more.length > 0 ? undefined : first.text;
}

/** The fields whose traces with a value have an index. */
const PRESENCE_LEADS: readonly { readonly lead: Lead; readonly field: FieldName }[] = [
  { lead: 'with_session', field: 'session' },
  { lead: 'with_user', field: 'user' },
];

function isPresence(term: QueryTerm, field: FieldName): boolean {
  return term.type === 'has' && term.field === field && !term.negated;
}

/** Every trace that the term finds has a failed observation. */
function isAboutFailed(term: QueryTerm): boolean {
  if (term.type === 'text' || term.negated) return false;
  if (term.type === 'has') return term.field === 'error';
  if (term.type !== 'values' || (term.field !== 'status' && term.field !== 'state')) return false;
  return term.values.every(({ text }) => text === 'error');
}

/** From the earliest beginning to the latest end. */
function hullOf(ranges: readonly TimeRange[]): TimeRange {
  return {
    from: extreme(
      ranges.map(({ from }) => from),
      -1,
    ),
    to: extreme(
      ranges.map(({ to }) => to),
      1,
    ),
    text: '',
  };
}

/** The first (-1) or the last (1) instant; null if a range has no bound. */
function extreme(instants: readonly (Instant | null)[], sign: 1 | -1): Instant | null {
  let found: Instant | null | undefined;
  for (const instant of instants) {
    if (instant === null) return null;
    if (found === undefined || found === null || sign * compare(instant, found) > 0)
      found = instant;
  }
  return found ?? null;
}

function compare(a: Instant, b: Instant): number {
  return a.ms - b.ms || a.ns - b.ns;
}
