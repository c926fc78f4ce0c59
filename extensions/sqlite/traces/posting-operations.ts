/** Posts the terms of new traces, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { cell, tuples } from '../../../src/sqlite/rows.ts';
import type { Term } from '../../../src/store/rows/trace-terms.ts';
import { HIDDEN } from '../batches/purge-operations.ts';
import { termsOfBlob } from './postings.ts';

/** Traces that one step posts: some milliseconds. */
const STEP_TRACES = 500;

export function postingOperations(db: DatabaseSync) {
  const last = cell<number>(db, 'SELECT n FROM posted_traces WHERE id = 1');
  const next = tuples<[n: number, project: string, terms: Uint8Array | null]>(
    db,
    `SELECT n, project, terms FROM traces WHERE n > ? ORDER BY n LIMIT ${STEP_TRACES}`,
  );
  // A trace that changed since an earlier version posted it may have the posting.
  const insert = db.prepare(
    `INSERT OR IGNORE INTO trace_terms (term, at_ms, at_ns, trace)
     SELECT ?1, t.at_ms, t.at_ns, t.n FROM json_each(?2) j CROSS JOIN traces t ON t.n = j.value`,
  );
  const posted = db.prepare('INSERT OR REPLACE INTO posted_traces VALUES (1, ?)');
  return {
    /** Posts the terms of the oldest traces that wait; returns whether more may wait. */
    'traces.post': (): boolean => {
      const found = next.all(last() ?? 0);
      const numbers = new Map<Term, number[]>();
      for (const [n, project, terms] of found) {
        if (project === HIDDEN || terms === null) continue;
        for (const term of termsOfBlob(terms)) {
          const list = numbers.get(term);
          if (list === undefined) numbers.set(term, [n]);
          else list.push(n);
        }
      }
      for (const term of new BigInt64Array(numbers.keys()).sort()) {
        insert.run(term, `[${numbers.get(term)?.join(',')}]`);
      }
      const end = found.at(-1);
      if (end !== undefined) posted.run(end[0]);
      return found.length === STEP_TRACES;
    },
  };
}
