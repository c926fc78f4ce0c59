/** Posts new traces, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { Term } from '../../../src/store/rows/trace-terms.ts';
import { HIDDEN } from '../batches/purge-operations.ts';
import { isUnposted, LAST_POSTED, termsIn } from './postings.ts';

/** Postings after which a step ends: some ten milliseconds, about 1,200 traces of ten spans. Each step writes the ends of all common terms. */
export const STEP_POSTINGS = 32_768;

/** Traces that a step reads to post their terms, or adds to the indexes by session and by user: some milliseconds. */
export const STEP_TRACES = 2048;

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
  // `OR FAIL`, because SQLite copies each page that an update of many rows changes if the update has to undo itself when a row fails, which
  // costs a third of the step. The thread undoes the whole transaction.
  const group = db.prepare(
    `UPDATE OR FAIL traces SET is_grouped = 1 WHERE ${isUnposted('n')} AND n > ? AND n <= ? AND is_grouped = 0`,
  );
  const posted = db.prepare('INSERT OR REPLACE INTO posted_traces VALUES (1, ?)');
  const ends = tuples<[posted: number, newest: number]>(
    db,
    `SELECT ${LAST_POSTED}, coalesce((SELECT max(n) FROM traces), 0)`,
  );
  /** Only saves reading: if the transaction that grouped these traces failed, the step that posts their terms groups them. */
  let grouped = 0;
  return {
    /** Adds the oldest traces that wait to the indexes by session and by user; returns whether more may wait. */
    'traces.group': (): boolean => {
      const [last = 0, newest = 0] = ends.get() ?? [];
      const from = Math.max(last, Math.min(grouped, newest));
      grouped = Math.min(from + STEP_TRACES, newest);
      if (grouped > from) group.run(from, grouped);
      return grouped === from + STEP_TRACES;
    },
    /** Posts the terms of the oldest traces that wait; returns whether more may wait. */
    'traces.post': (): boolean => {
      const numbers: Posted = new Map();
      let [count, traces] = [0, 0];
      let isFull = false;
      let end: number | undefined;
      for (const [n, project, terms] of next.iterate()) {
        end = n;
        traces++;
        if (project !== HIDDEN && terms !== null) count += addTerms(numbers, n, terms);
        isFull = count >= STEP_POSTINGS || traces === STEP_TRACES;
        if (isFull) break;
      }
      for (const term of new BigInt64Array(numbers.keys()).sort()) {
        insert.run(term, `[${numbers.get(term)?.join(',')}]`);
      }
      if (end !== undefined) {
        group.run(0, end);
        posted.run(end);
      }
      return isFull;
    },
  };
}

/** Returns the number of terms. */
function addTerms(numbers: Posted, n: number, blob: Uint8Array): number {
  const terms = termsIn(blob);
  for (const term of terms) {
    const list = numbers.get(term);
    if (list === undefined) numbers.set(term, [n]);
    else list.push(n);
  }
  return terms.length;
}
