import type { TimeRange } from '../../query/query.ts';
import type { Place } from '../rows/place.ts';
import { FAILED, timeCondition } from './conditions.ts';
import type { Parameters } from './dialect.ts';
import type { Way } from './plan.ts';

/** The part of a way that a statement is about. */
export type PlaceRange = {
  readonly project: string;
  readonly ranges: readonly TimeRange[];
  readonly isAscending: boolean;
  /** Exclusive; null without a bound. */
  readonly after: Place | null;
  /** Inclusive; null without a bound. */
  readonly end: Place | null;
};

/** The table that a statement reads first, and its conditions: `t` is `traces`, `p` has the places of postings. */
export type Places = {
  readonly table: 't' | 'p';
  readonly from: string;
  readonly where: readonly string[];
};

/** The columns of a place: `n` is the number of the trace. */
export const PLACE_COLUMNS: Readonly<Record<Places['table'], string>> = {
  t: 't.at_ms, t.at_ns, t.n',
  p: 'p.at_ms, p.at_ns, p.trace AS n',
};

/** `UNION ALL` keeps the order of the lists, and a trace that is in several of them. */
export function placesOf(
  parameters: Parameters,
  way: Way,
  range: PlaceRange,
  union: 'UNION' | 'UNION ALL',
): Places {
  if (way.lead !== 'terms') {
    const where = [`t.project = ${parameters.value(range.project)}`];
    if (way.lead === 'failed') where.push(FAILED_TRACES);
    where.push(...rangeOf(parameters, 't', range));
    const index = way.lead === 'failed' ? 'failed_traces' : 'traces_by_time';
    return { table: 't', from: parameters.dialect.traces(index), where };
  }
  const [first = ['FALSE'], ...more] = way.terms.map((term) => [
    `p.term = ${parameters.term(term)}`,
    ...rangeOf(parameters, 'p', range),
  ]);
  if (more.length === 0) return { table: 'p', from: 'trace_terms p', where: first };
  const lists = [first, ...more].map(
    (where) => `SELECT p.at_ms, p.at_ns, p.trace FROM trace_terms p WHERE ${where.join(' AND ')}`,
  );
  return { table: 'p', from: `(${lists.join(` ${union} `)}) p`, where: [] };
}

/** The condition of the index of failed traces. */
const FAILED_TRACES = `(t.errors > 0 OR t.status = ${FAILED})`;

function rangeOf(
  parameters: Parameters,
  table: Places['table'],
  { ranges, isAscending, after, end }: PlaceRange,
): string[] {
  const place = `(${table}.at_ms, ${table}.at_ns, ${table === 't' ? 't.n' : 'p.trace'})`;
  const where: string[] = [];
  const bound = (comparison: string, { ms, ns, n }: Place): void => {
    where.push(`${place} ${comparison} ${parameters.integers(ms, ns, n)}`);
  };
  if (after !== null) bound(isAscending ? '>' : '<', after);
  if (end !== null) bound(isAscending ? '<=' : '>=', end);
  for (const range of ranges) where.push(timeCondition(range, parameters, table));
  return where;
}

/** In the order of time, from the beginning of the range. */
export function orderOf({ table }: Places, isAscending: boolean): string {
  const direction = isAscending ? 'ASC' : 'DESC';
  const n = table === 't' ? 't.n' : 'p.trace';
  return `ORDER BY ${table}.at_ms ${direction}, ${table}.at_ns ${direction}, ${n} ${direction}`;
}
