import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/**
 * The last trace whose terms are in `trace_terms`. The terms of newer ones are in their rows only, until the background posts those of
 * many traces at once (`extensions/sqlite/traces/postings.ts`).
 */
export const postedTraces: FileMigration = {
  name: '0021-posted-traces',
  apply(db) {
    db.exec(`
      CREATE TABLE posted_traces (id INTEGER PRIMARY KEY CHECK (id = 1), n INTEGER NOT NULL) STRICT;
      INSERT INTO posted_traces SELECT 1, coalesce(max(n), 0) FROM traces;
    `);
  },
};
