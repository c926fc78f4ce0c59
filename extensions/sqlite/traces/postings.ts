/**
 * The postings of terms, in the database thread. A write leaves the terms of a new trace in its row, and the row out of the indexes by
 * session and by user; the background posts many traces at once, their terms sorted:
 *
 *   numbers of traces   1 … posted_traces.n             │ … newest
 *   terms               in `trace_terms`                │ in `traces.terms` only: readers look at each row
 *   sessions, users     in the indexes                  │ in the indexes if `is_grouped` is 1, else as terms
 *
 * The terms, sessions and users of traces that arrive together are spread over the whole table and the whole indexes, so that posting ten
 * traces writes about as many pages as posting some hundred. A change of a posted trace changes its postings at once.
 */
import type { DatabaseSync } from 'node:sqlite';
import { finds, tuples } from '../../../src/sqlite/rows.ts';
import type { SummarizedTrace } from '../../../src/store/rows/trace-columns.ts';
import { postingsOf } from '../../../src/store/rows/trace-columns.ts';
import type { Term, TracePostings } from '../../../src/store/rows/trace-terms.ts';
import { postingChange } from '../../../src/store/rows/trace-terms.ts';

/** The cells of `traces` that say which postings a trace has. */
export type PostedCells = readonly [atMs: number, atNs: number, terms: Uint8Array | null];
export const POSTED_COLUMNS = 'at_ms, at_ns, terms';

/** Null for a trace of an earlier version, which has none. */
export function postingsOfCells([ms, ns, terms]: PostedCells): TracePostings | null {
  return terms === null ? null : { at: { ms, ns }, terms: termsOfBlob(terms) };
}

/** The cell of the column `terms`. */
export function blobOfTerms(terms: readonly Term[]): Uint8Array {
  return new Uint8Array(BigInt64Array.from(terms).buffer);
}

/** The terms in the cell, in ascending order. */
export function termsOfBlob(blob: Uint8Array): Term[] {
  return [...termsIn(blob)];
}

/** The same for a walk. Hot path, runs for every trace that is posted: costs a tenth of the list. */
export function termsIn(blob: Uint8Array): Iterable<Term> & { readonly length: number } {
  // A copy, because the numbers of a typed array begin at a multiple of their size.
  return new BigInt64Array(new Uint8Array(blob).buffer);
}

/** The number of the last posted trace. */
export const LAST_POSTED = 'coalesce((SELECT n FROM posted_traces WHERE id = 1), 0)';

/** Whether the trace with a number waits to be posted. Without a row in `posted_traces`, all of them do. */
export function isUnposted(n: string): string {
  return `${n} > ${LAST_POSTED}`;
}

/** Every change is in the transaction that changes the row of the trace, and concerns posted traces only. */
export type PostingTable = {
  /** The postings of a trace whose row has not been changed yet, posted or not. */
  of(trace: number): TracePostings | null;
  /** `before`: the postings of the row before it changed. */
  save(trace: SummarizedTrace, before: TracePostings | null): void;
  /** Before the row of the trace is removed. */
  remove(trace: number): void;
};

export function postingTable(db: DatabaseSync): PostingTable {
  // One statement for all terms of a trace: a call for each of them costs a quarter more.
  const insert = db.prepare(
    `INSERT OR IGNORE INTO trace_terms (term, at_ms, at_ns, trace)
     SELECT value, ?2, ?3, ?4 FROM json_each(?1)`,
  );
  const drop = db.prepare(
    'DELETE FROM trace_terms WHERE term = ? AND at_ms = ? AND at_ns = ? AND trace = ?',
  );
  const posted = tuples<PostedCells>(db, `SELECT ${POSTED_COLUMNS} FROM traces WHERE n = ?`);
  const isWaiting = finds(db, `SELECT 1 WHERE ${isUnposted('?')}`);
  const of = (trace: number): TracePostings | null => {
    const cells = posted.get(trace);
    return cells === undefined ? null : postingsOfCells(cells);
  };
  const removeThese = (trace: number, { at, terms }: TracePostings): void => {
    for (const term of terms) drop.run(term, at.ms, at.ns, trace);
  };
  return {
    of,
    save(trace, before) {
      if (isWaiting(trace.n)) return;
      const { inserted, deleted } = postingChange(before, postingsOf(trace));
      removeThese(trace.n, deleted);
      const { at, terms } = inserted;
      if (terms.length > 0) insert.run(`[${terms.join(',')}]`, at.ms, at.ns, trace.n);
    },
    remove(trace) {
      if (isWaiting(trace)) return;
      const postings = of(trace);
      if (postings !== null) removeThese(trace, postings);
    },
  };
}
