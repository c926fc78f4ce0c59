/** The postings of terms, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
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

function termsOfBlob(blob: Uint8Array): Term[] {
  // A copy, because the numbers of a typed array begin at a multiple of their size.
  return [...new BigInt64Array(Uint8Array.from(blob).buffer)];
}

/** Every change is in the transaction that changes the row of the trace. */
export type PostingTable = {
  /** The postings of a trace whose row has not been changed yet. */
  of(trace: number): TracePostings | null;
  /** `before`: the postings that the table has. */
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
      const { inserted, deleted } = postingChange(before, postingsOf(trace));
      removeThese(trace.n, deleted);
      const { at, terms } = inserted;
      if (terms.length > 0) insert.run(`[${terms.join(',')}]`, at.ms, at.ns, trace.n);
    },
    remove(trace) {
      const postings = of(trace);
      if (postings !== null) removeThese(trace, postings);
    },
  };
}
