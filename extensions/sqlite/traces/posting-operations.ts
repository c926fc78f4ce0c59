/** Posts the terms of new traces, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { Term } from '../../../src/store/rows/trace-terms.ts';
import { HIDDEN } from '../batches/purge-operations.ts';
import { isUnposted, termsOfBlob } from './postings.ts';

/** Postings after which a step ends: some milliseconds, about 600 traces of ten spans, or 1,600 of one. */
export const STEP_POSTINGS = 16_384;

/** The numbers of the traces with a term. */
type Posted = Map<Term, number[]>;

export function postingOperations(db: DatabaseSync) {
  const next = tuples<[n: number, project: string, terms: Uint8Array | null]>(
    db,
    `SELECT n, project, terms FROM traces WHERE ${isUnposted('n')} ORDER BY n`,
  );
  // The postings are there already if the row of `posted_traces` was lost.
  const insert = db.prepare(
    `INSERT OR IGNORE INTO trace_terms (term, at_ms, at_ns, trace)
     SELECT ?1, t.at_ms, t.at_ns, t.n FROM json_each(?2) j CROSS JOIN traces t ON t.n = j.value`,
  );
  const posted = db.prepare('INSERT OR REPLACE INTO posted_traces VALUES (1, ?)');
  return {
    /** Posts the terms of the oldest traces that wait; returns whether more may wait. */
    'traces.post': (): boolean => {
      const numbers: Posted = new Map();
      let count = 0;
      let end: number | undefined;
      for (const [n, project, terms] of next.iterate()) {
        end = n;
        if (project !== HIDDEN && terms !== null) count += addTerms(numbers, n, terms);
        if (count >= STEP_POSTINGS) break;
      }
      for (const term of new BigInt64Array(numbers.keys()).sort()) {
        insert.run(term, `[${numbers.get(term)?.join(',')}]`);
      }
      if (end !== undefined) posted.run(end);
      return count >= STEP_POSTINGS;
    },
  };
}

/** Returns the number of terms. */
function addTerms(numbers: Posted, n: number, blob: Uint8Array): number {
  const terms = termsOfBlob(blob);
  for (const term of terms) {
    const list = numbers.get(term);
    if (list === undefined) numbers.set(term, [n]);
    else list.push(n);
  }
  return terms.length;
}
