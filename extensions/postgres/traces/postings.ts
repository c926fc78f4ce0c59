/** The postings of terms. */
import type { SummarizedTrace } from '../../../src/store/rows/trace-columns.ts';
import { postingsOf } from '../../../src/store/rows/trace-columns.ts';
import type { Term, TracePostings } from '../../../src/store/rows/trace-terms.ts';
import { postingChange } from '../../../src/store/rows/trace-terms.ts';
import type { PostgresClient, Statement } from '../connection/statement.ts';
import { row } from '../connection/statement.ts';
import type { Column } from './columns.ts';
import { columnParameters, namesOf, unnest } from './columns.ts';
import { daysOfTraces } from './numbers.ts';

/** The columns of `traces` that say which postings a trace has. */
export const POSTED_ROW_COLUMNS = ['t.at_ms', 't.at_ns', 't.terms::text AS terms'].join(', ');
export type PostedRow = {
  readonly at_ms: number;
  readonly at_ns: number;
  /** An array in the form of Postgres: a driver reads the numbers of arrays as it likes. */
  readonly terms: string | null;
};

/** Null for a trace of an earlier version, which has none. */
export function postingsOfRow({ at_ms: ms, at_ns: ns, terms }: PostedRow): TracePostings | null {
  return terms === null ? null : { at: { ms, ns }, terms: termsOfText(terms) };
}

function termsOfText(text: string): Term[] {
  return text === '{}' ? [] : text.slice(1, -1).split(',').map(BigInt);
}

/** An array in the form of Postgres. */
export function textOfTerms(terms: readonly Term[]): string {
  return `{${terms.join(',')}}`;
}

/** A trace to save, and the postings that the table has. */
export type PostedTrace = SummarizedTrace & { readonly postings: TracePostings | null };

/** A row of `trace_terms`. */
type Posting = { readonly term: Term; readonly at: TracePostings['at']; readonly trace: number };

export const POSTING_COLUMNS: readonly Column<Posting>[] = [
  { name: 'term', type: 'bigint', of: ({ term }) => String(term) },
  { name: 'at_ms', type: 'bigint', of: ({ at }) => at.ms },
  { name: 'at_ns', type: 'integer', of: ({ at }) => at.ns },
  { name: 'trace', type: 'bigint', of: ({ trace }) => trace },
];

/** The rows of `trace_terms` that traces insert and delete. */
export function postingChanges(traces: readonly PostedTrace[]): {
  readonly inserted: Posting[];
  readonly deleted: Posting[];
} {
  const inserted: Posting[] = [];
  const deleted: Posting[] = [];
  for (const trace of traces) {
    const change = postingChange(trace.postings, postingsOf(trace));
    for (const term of change.inserted.terms) {
      inserted.push({ term, at: change.inserted.at, trace: trace.n });
    }
    for (const term of change.deleted.terms) {
      deleted.push({ term, at: change.deleted.at, trace: trace.n });
    }
  }
  return { inserted, deleted };
}

const IS_SAME = 'p.term = g.term AND p.at_ms = g.at_ms AND p.at_ns = g.at_ns AND p.trace = g.trace';

/** An SQL statement that deletes the postings in the parameters from `first` on. */
export function deletePostings(first: number): string {
  return `DELETE FROM trace_terms p
    USING ${unnest(POSTING_COLUMNS, first)} AS g (${namesOf(POSTING_COLUMNS)}) WHERE ${IS_SAME}`;
}

const DELETE = `${deletePostings(1)} AND p.trace >= $5 AND p.trace < $6`;

export function deletion(deleted: readonly Posting[]): Statement[] {
  if (deleted.length === 0) return [];
  const days = daysOfTraces(deleted.map(({ trace }) => trace));
  return [[DELETE, [...columnParameters(POSTING_COLUMNS, deleted), ...days]]];
}

/** The columns of `traces` that a statement returns for `DELETE_POSTINGS_OF_GONE`. */
export const GONE_COLUMNS = 'n, at_ms, at_ns, terms';
/** Deletes the postings of removed traces, which the table expression `gone` has. $1 are their numbers. */
export const DELETE_POSTINGS_OF_GONE = `DELETE FROM trace_terms p
  USING (SELECT n AS trace, at_ms, at_ns, unnest(terms) AS term FROM gone) AS g
  WHERE ${IS_SAME} AND p.trace = ANY ($1::bigint[])`;

/** The number of traces without postings. */
export async function tracesWithoutTerms(client: PostgresClient): Promise<number> {
  const sql = 'SELECT count(*) AS count FROM traces WHERE terms IS NULL';
  return (await row<{ count: number }>(client, sql))?.count ?? 0;
}
