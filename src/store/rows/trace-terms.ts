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

/** A trace with more terms has so many of them, and the overflow term in place of the others. */
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
  return termOfText(project, textOf(field, value, key));
}

/** The term of traces with more than `MAX_TERMS` terms: a search by terms has to look at all of them. */
export function overflowTerm(project: string): Term {
  return termOfText(project, OVERFLOW);
}

/** The fields of observations come last, so that a trace with many observations leaves their terms out first. */
export function traceTerms(
  project: string,
  keyId: string | null,
  summary: TraceSummary,
): TraceTerms {
  const texts = [...textsOfTrace(keyId, summary), ...summary.observed];
  const unindexed = Math.max(0, texts.length - MAX_TERMS);
  const posted = unindexed === 0 ? texts : firstOf(keyId, summary);
  const terms = BigInt64Array.from(posted, (text) => termOfText(project, text)).sort();
  // Different texts may have the same term.
  return { terms: [...terms].filter((term, i) => term !== terms[i - 1]), unindexed };
}

/** As many texts as are indexed. Their choice does not depend on the order of the rows. */
function firstOf(keyId: string | null, summary: TraceSummary): string[] {
  const texts = [...textsOfTrace(keyId, summary), ...summary.observed.toSorted()];
  return [...texts.slice(0, MAX_TERMS), OVERFLOW];
}

function textsOfTrace(keyId: string | null, summary: TraceSummary): string[] {
  const { facts, source } = summary;
  const texts = (facts.tags ?? []).map((tag) => textOf('tag', tag));
  for (const [key, value] of Object.entries(facts.custom ?? {})) {
    texts.push(textOf('custom', value, key));
  }
  const add = (field: TermField, value: string | null): void => {
    if (value !== null) texts.push(textOf(field, value));
  };
  add('name', summary.name);
  add('status', statusOf(summary.status));
  add('source', sourceOfNumber(source));
  add('key', keyId);
  add('environment', summary.environment);
  add('release', summary.release);
  return texts;
}

/** A row of an observation with its details. */
type DetailedRow = {
  readonly row: ObservationRow;
  readonly details: ObservationDetails | null;
};

/** The texts of the terms that observations have. */
export function observedTexts(rows: readonly DetailedRow[]): string[] {
  const texts = new Set<string>();
  for (const { row, details } of rows) {
    const add = (field: TermField, value: string | null | undefined): void => {
      if (value !== null && value !== undefined) texts.add(textOf(field, value));
    };
    const kind = kindOf(row[ROW.KIND]);
    const name = row[ROW.NAME];
    add('span', name);
    add('kind', kind);
    add('model', row[ROW.MODEL]);
    add('error', errorTypeOf(row));
    add('tool', details?.tool ?? (kind === 'tool' ? name : null));
    add('provider', details?.provider);
    add('prompt', details?.promptName);
  }
  return [...texts];
}

function errorTypeOf(row: ObservationRow): string | null {
  const error = row[ROW.ERROR];
  return error === null ? null : (decodeJsonText(error) as ObservationError).type;
}

/** No field has an empty name. */
const OVERFLOW = '';

/** A text for each field and value. */
function textOf(field: TermField, value: string, key: string | null = null): string {
  return key === null ? `${field}\n${value}` : `${field}.${key}\n${value}`;
}

/** Most terms of a write are those of the last writes: models, names, kinds. */
const KEPT_TERMS = 8192;
/** Longer texts are hashed again each time. */
const KEPT_LENGTH = 200;
/** By project and text. */
const keptTerms = new Map<string, Map<string, Term>>();
let keptCount = 0;

// Hot path, runs for every term of a write.
function termOfText(project: string, text: string): Term {
  const known = keptTerms.get(project)?.get(text);
  if (known !== undefined) return known;
  const term = hash('sha256', `${project}\n${text}`, 'buffer').readBigInt64BE();
  if (text.length <= KEPT_LENGTH) keep(project, text, term);
  return term;
}

function keep(project: string, text: string, term: Term): void {
  // Forgetting all of them at once costs less than an order of use.
  if (keptCount === KEPT_TERMS) {
    keptTerms.clear();
    keptCount = 0;
  }
  const ofProject = keptTerms.get(project) ?? new Map<string, Term>();
  keptTerms.set(project, ofProject.set(text, term));
  keptCount++;
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
