import type { Instant } from '../../model/observation.ts';
import type { FieldName } from '../../query/fields.ts';
import type { Query, QueryTerm, TimeRange } from '../../query/query.ts';
import type { Term, TermField } from '../rows/trace-terms.ts';
import { overflowTerm, TERM_FIELDS, termOf } from '../rows/trace-terms.ts';
import type { TokenBranch } from '../search/tokens.ts';
import { branchesOf } from '../search/tokens.ts';
import { inJsonText } from './conditions.ts';

/**
 * The ways to the traces of a query, each in the order of time. The one with the fewest traces leads, and every term is a condition on
 * the rows that it finds.
 *
 *   terms ─┬─ start:…                              the range of time
 *          ├─ id:I                                 the keys of traces
 *          ├─ session:S, user:U                    the indexes of their values
 *          ├─ equality of another field            the postings of the terms
 *          ├─ has:error, has:session, has:user     the indexes of the traces that have one
 *          ├─ word, "phrase"                       the index of payload text, if the store has one
 *          └─ all others                           conditions (conditions.ts)
 */
export type Plan = {
  /** Beside the index by time. */
  readonly ways: readonly Way[];
  readonly ranges: readonly TimeRange[];
  /** The terms that the ranges do not answer. */
  readonly rest: readonly QueryTerm[];
};

type Way = TermWay | IdWay | GroupWay | IndexWay | TextWay;

/** The postings of any of the terms. A trace with the overflow term may have any value of the field. */
type TermWay = {
  readonly lead: 'terms';
  readonly terms: readonly Term[];
  readonly overflow: Term;
};
/** The index of ids, for any of the values. */
type IdWay = { readonly lead: 'id'; readonly values: readonly string[] };
/** The index by session or by user, for any of the values. */
export type GroupWay = { readonly lead: 'session' | 'user'; readonly values: readonly string[] };
/** An index in the order of time. */
export type IndexWay = { readonly lead: 'time' | 'failed' | 'with_session' | 'with_user' };

/**
 * The index of payload text. Its rows are not in the order of time, so that it leads only if it has few: all of them are then read and
 * sorted. Traces with changes that the index does not have may match as well.
 */
export type TextWay = { readonly lead: 'text'; readonly branches: readonly TokenBranch[] };

/** The most values of one term of the query whose lists are merged. */
export const MAX_MERGED = 32;
/** The most terms of the query with postings that are probed before a step. */
const MAX_TERM_WAYS = 8;
/** The most words and phrases of the query that are probed. */
const MAX_TEXT_WAYS = 3;

/** `hasTexts`: whether the store has an index of payload text. */
export function planOf({ terms }: Query, project: string, hasTexts = false): Plan {
  const ranges: TimeRange[] = [];
  const rest: QueryTerm[] = [];
  for (const term of terms) {
    if (term.type !== 'times' || term.negated) rest.push(term);
    else if (term.ranges.length === 1) ranges.push(...term.ranges);
    else {
      ranges.push(hullOf(term.ranges));
      rest.push(term);
    }
  }
  const ways: Way[] = [
    ...valueWays(rest, 'id'),
    ...valueWays(rest, 'session'),
    ...valueWays(rest, 'user'),
    ...termWays(rest, project),
    ...(rest.some(isAboutFailed) ? [{ lead: 'failed' } as const] : []),
    ...(rest.some((term) => isPresence(term, 'session')) ? [WITH_SESSION] : []),
    ...(rest.some((term) => isPresence(term, 'user')) ? [WITH_USER] : []),
    ...(hasTexts ? textWays(rest, project) : []),
  ];
  return { ways, ranges, rest };
}

const WITH_SESSION: IndexWay = { lead: 'with_session' };
const WITH_USER: IndexWay = { lead: 'with_user' };

function valueWays<Field extends 'id' | GroupWay['lead']>(
  terms: readonly QueryTerm[],
  lead: Field,
): { readonly lead: Field; readonly values: readonly string[] }[] {
  return terms.flatMap((term) => {
    const values = equalValues(term, lead);
    return values === undefined ? [] : { lead, values };
  });
}

/** The ways by postings, those with fields of rare values first. */
function termWays(terms: readonly QueryTerm[], project: string): TermWay[] {
  return TERM_FIELDS.flatMap((field) =>
    terms.flatMap((term) => termWay(term, field, project) ?? []),
  ).slice(0, MAX_TERM_WAYS);
}

function textWays(terms: readonly QueryTerm[], project: string): TextWay[] {
  const ways = terms.flatMap((term): TextWay[] => {
    if (term.type !== 'text' || term.negated) return [];
    const branches = branchesOf(project, term.text, inJsonText(term.text));
    return branches === undefined ? [] : [{ lead: 'text', branches }];
  });
  return ways.slice(0, MAX_TEXT_WAYS);
}

function termWay(term: QueryTerm, field: TermField, project: string): TermWay | undefined {
  const values = equalValues(term, field);
  if (values === undefined || term.type !== 'values') return undefined;
  const terms = new Set(values.map((value) => termOf(project, field, value, term.key)));
  return { lead: 'terms', terms: [...terms], overflow: overflowTerm(project, field) };
}

/** Undefined if the term is not the equality of the field with one of few values. */
function equalValues(term: QueryTerm, field: FieldName): readonly string[] | undefined {
  if (term.type !== 'values' || term.field !== field || term.negated) return undefined;
  const { values } = term;
  if (values.length > MAX_MERGED || values.some(({ isPrefix }) => isPrefix)) return undefined;
  return [...new Set(values.map(({ text }) => text))];
}

function isPresence(term: QueryTerm, field: FieldName): boolean {
  return term.type === 'has' && term.field === field && !term.negated;
}

/** The counts of a probe. */
export type WayCounts = {
  /** Whether every trace of the store has its postings. */
  readonly isIndexed: boolean;
  /** The counts of each way; none without a probe. */
  readonly ways: readonly WayCount[];
};

/** Each is at most `PROBED`, those of a text `PROBED_ROWS` for each of its branches. */
export type WayCount = {
  readonly traces: number;
  /** Traces with the overflow term of the field; of a text, changes that the index does not have. */
  readonly overflow: number;
};

/** The most traces of a way that a probe counts. */
export const PROBED = 1000;
/** The same of rows in the index of payload text: sorting so many takes some ten milliseconds. */
export const PROBED_ROWS = 4000;

/** The way that leads, and the terms of which each of its traces has one, for each further way by postings. */
export type Choice = {
  readonly lead: Lead;
  readonly also: readonly (readonly Term[])[];
};

/** A way with the traces that may have any value. */
export type Lead = TermLead | IdWay | GroupWay | IndexWay | TextWay;

type TermLead = Omit<TermWay, 'overflow'> & {
  /** The terms of traces without postings. */
  readonly unposted: readonly Term[];
};

const BY_TIME: Choice = { lead: { lead: 'time' }, also: [] };
/** A lead with fewer traces is not intersected: their rows are read in less than a millisecond. */
const FEW = 100;
const MAX_INTERSECTED = 2;
const NONE: WayCount = { traces: 0, overflow: 0 };

export function choiceOf({ ways }: Plan, counts: WayCounts): Choice {
  const known = ways
    .map((way, i) => ({ way, ...(counts.ways[i] ?? NONE) }))
    .filter((one) => canLead(one, counts))
    // Stable: of equal counts, and without a probe, the rarer field is first.
    .sort((a, b) => a.traces + a.overflow - b.traces - b.overflow);
  const [best, ...others] = known;
  if (best === undefined) return BY_TIME;
  const { way, traces, overflow } = best;
  if (way.lead !== 'terms') return { lead: way, also: [] };
  const unposted = [...way.terms, way.overflow];
  const lead = { lead: way.lead, terms: termsOf(way, overflow), unposted };
  if (traces + overflow < FEW) return { lead, also: [] };
  const also = others.flatMap((one) =>
    one.way.lead === 'terms' ? [termsOf(one.way, one.overflow)] : [],
  );
  return { lead, also: also.slice(0, MAX_INTERSECTED) };
}

function canLead({ way, traces, overflow }: WayCount & { way: Way }, counts: WayCounts): boolean {
  if (way.lead === 'terms') return counts.isIndexed;
  if (way.lead !== 'text') return true;
  return counts.ways.length > 0 && traces < PROBED_ROWS && overflow < PROBED_ROWS;
}

function termsOf({ terms, overflow }: TermWay, overflowing: number): readonly Term[] {
  return overflowing === 0 ? terms : [...terms, overflow];
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
