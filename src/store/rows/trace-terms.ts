import { hash } from 'node:crypto';
import type { ObservationDetails } from '../../model/details.ts';
import { decodeJsonText } from '../../model/json/decode.ts';
import type { Instant, ObservationError } from '../../model/observation.ts';
import type { FieldName } from '../../query/fields.ts';
import type { ObservationRow } from './observation-row.ts';
import { kindOf, ROW, sourceOfNumber, statusOf } from './observation-row.ts';
import type { TraceSummary } from './trace-summary.ts';

/**
 * A term is a hash of a project, a field and a value. The table `trace_terms` has a posting for each term of a trace, in the
 * order of time, so that a search for a rare value reads few rows:
 *
 *   rows of the observations ─▶ summary ─▶ terms ─┬─ those not posted yet: inserted
 *                                                 └─ posted ones that are gone: deleted
 *
 * Two values may share a term, so a search checks each trace that it finds.
 */
export type Term = bigint;

/** The rows of a trace in `trace_terms`. */
export type TracePostings = {
  /** The time of the trace in listings. */
  readonly at: Instant;
  /** In ascending order. */
  readonly terms: readonly Term[];
};

export type TraceTerms = {
  /** In ascending order. */
  readonly terms: readonly Term[];
  /** The number of terms that were left out, because the trace has more than `MAX_TERMS`. */
  readonly unindexed: number;
};

/** Of a trace with more terms, the fields with the most values are left out, and have an overflow term each. */
export const MAX_TERMS = 64;

/**
 * The fields with terms, those of rare values first. `state` depends on the time of the search; sessions and users have indexes of
 * their own, which the lists of sessions and users need.
 */
export const TERM_FIELDS = [
  ...(['prompt', 'custom', 'tag', 'release', 'error', 'name', 'span'] as const),
  ...(['tool', 'model', 'provider', 'environment', 'key', 'kind', 'status', 'source'] as const),
] as const satisfies readonly FieldName[];

export type TermField = (typeof TERM_FIELDS)[number];

/** Returns a term of the project. `key` is the name behind the dot of `custom.KEY`. */
export function termOf(
  project: string,
  field: TermField,
  value: string,
  key: string | null = null,
): Term {
  return termOfValue(project, field, keyed(value, key));
}

/** The term of traces whose values of the field were left out: a search for a value looks at all of them. */
export function overflowTerm(project: string, field: TermField): Term {
  return hashOf(project, field);
}

/** The values of a trace by field; those of `custom` have their key. */
export type FieldValues = ReadonlyMap<TermField, ReadonlySet<string>>;

export function traceTerms(
  project: string,
  keyId: string | null,
  summary: TraceSummary,
): TraceTerms {
  const fields = [...valuesOfTrace(keyId, summary), ...summary.observed];
  let left = fields.reduce((sum, [, { size }]) => sum + size, 0);
  let unindexed = 0;
  const terms: Term[] = [];
  // A stable sort: which fields are left out does not depend on the order of the rows.
  if (left > MAX_TERMS) fields.sort(([, a], [, b]) => b.size - a.size);
  for (const [field, values] of fields) {
    if (left > MAX_TERMS) {
      terms.push(overflowTerm(project, field));
      unindexed += values.size;
      left -= values.size;
    } else {
      for (const value of values) terms.push(termOfValue(project, field, value));
    }
  }
  return { terms: sortedTerms(terms), unindexed };
}

/** Each once: different values may have the same term. Inserts each into its place: a sort costs more for so few. */
function sortedTerms(terms: readonly Term[]): readonly Term[] {
  const sorted: Term[] = [];
  for (const term of terms) {
    let at = sorted.length;
    while (at > 0 && (sorted[at - 1] as Term) > term) at--;
    if (sorted[at - 1] === term) continue;
    for (let i = sorted.length; i > at; i--) sorted[i] = sorted[i - 1] as Term;
    sorted[at] = term;
  }
  return sorted;
}

function valuesOfTrace(
  keyId: string | null,
  { facts, source, name, status, environment, release }: TraceSummary,
): [TermField, ReadonlySet<string>][] {
  const custom = Object.entries(facts.custom ?? {}).map(([key, value]) => keyed(value, key));
  const one = (value: string | null): Set<string> => new Set(value === null ? [] : [value]);
  return [
    ['tag', new Set(facts.tags)],
    ['custom', new Set(custom)],
    ['name', one(name)],
    ['status', one(statusOf(status))],
    ['source', one(sourceOfNumber(source))],
    ['key', one(keyId)],
    ['environment', one(environment)],
    ['release', one(release)],
  ];
}

/** A row of an observation with its details. */
type DetailedRow = {
  readonly row: ObservationRow;
  readonly details: ObservationDetails | null;
};

/** The values of the fields of observations. */
export function observedValues(rows: readonly DetailedRow[]): FieldValues {
  const [spans, kinds, models, errors] = [valueSet(), valueSet(), valueSet(), valueSet()];
  const [tools, providers, prompts] = [valueSet(), valueSet(), valueSet()];
  for (const { row, details } of rows) {
    const kind = kindOf(row[ROW.KIND]);
    const name = row[ROW.NAME];
    spans.add(name);
    kinds.add(kind);
    models.add(row[ROW.MODEL]);
    errors.add(errorTypeOf(row));
    tools.add(details?.tool ?? (kind === 'tool' ? name : null));
    providers.add(details?.provider);
    prompts.add(details?.promptName);
  }
  return new Map([
    ['span', spans.values],
    ['kind', kinds.values],
    ['model', models.values],
    ['error', errors.values],
    ['tool', tools.values],
    ['provider', providers.values],
    ['prompt', prompts.values],
  ]);
}

type ValueSet = { readonly values: Set<string>; add(value: string | null | undefined): void };

function valueSet(): ValueSet {
  const values = new Set<string>();
  return {
    values,
    add(value) {
      if (value !== null && value !== undefined) values.add(value);
    },
  };
}

function errorTypeOf(row: ObservationRow): string | null {
  const error = row[ROW.ERROR];
  return error === null ? null : (decodeJsonText(error) as ObservationError).type;
}

function keyed(value: string, key: string | null): string {
  return key === null ? value : `${key}\n${value}`;
}

function textOf(field: TermField, value: string): string {
  return `${field}\n${value}`;
}

/** Most terms of a write are those of the last writes: models, names, kinds. */
const KEPT_TERMS = 8192;
/** Terms of longer values are hashed again each time. */
const KEPT_LENGTH = 200;
const keptTerms = new Map<string, Map<TermField, Map<string, Term>>>();
let keptCount = 0;

// Hot path, runs for every term of a write: a look-up by field and value makes no text.
function termOfValue(project: string, field: TermField, value: string): Term {
  const known = keptTerms.get(project)?.get(field)?.get(value);
  if (known !== undefined) return known;
  const term = hashOf(project, textOf(field, value));
  if (value.length <= KEPT_LENGTH) keep(project, field, value, term);
  return term;
}

function keep(project: string, field: TermField, value: string, term: Term): void {
  // Forgetting all of them at once costs less than an order of use.
  if (keptCount === KEPT_TERMS) {
    keptTerms.clear();
    keptCount = 0;
  }
  const ofProject = keptTerms.get(project) ?? new Map<TermField, Map<string, Term>>();
  const ofField = ofProject.get(field) ?? new Map<string, Term>();
  keptTerms.set(project, ofProject.set(field, ofField.set(value, term)));
  keptCount++;
}

function hashOf(project: string, text: string): Term {
  return hash('sha256', `${project}\n${text}`, 'buffer').readBigInt64BE();
}

/** The postings that a change inserts and deletes. */
export type PostingChange = { readonly inserted: TracePostings; readonly deleted: TracePostings };

/** `before` is null for a trace without postings. */
export function postingChange(before: TracePostings | null, after: TracePostings): PostingChange {
  if (before === null) return { inserted: after, deleted: { at: after.at, terms: [] } };
  const { at } = before;
  if (at.ms !== after.at.ms || at.ns !== after.at.ns) return { inserted: after, deleted: before };
  const [old, now] = [new Set(before.terms), new Set(after.terms)];
  return {
    inserted: { at, terms: after.terms.filter((term) => !old.has(term)) },
    deleted: { at, terms: before.terms.filter((term) => !now.has(term)) },
  };
}
