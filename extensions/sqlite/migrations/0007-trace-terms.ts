import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/**
 * The postings of terms (`src/store/rows/trace-terms.ts`). The traces of earlier versions get theirs in the background, with their
 * summary.
 */
export const traceTermTables: FileMigration = {
  name: '0007-trace-terms',
  apply(db) {
    db.exec(`
      CREATE TABLE trace_terms (
        term INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        at_ns INTEGER NOT NULL,
        trace INTEGER NOT NULL,
        PRIMARY KEY (term, at_ms, at_ns, trace)
      ) STRICT, WITHOUT ROWID;
      -- The posted terms of a trace, 8 bytes each; NULL before a trace of an earlier version has postings.
      ALTER TABLE traces ADD COLUMN terms BLOB;
      CREATE INDEX traces_without_terms ON traces (n) WHERE terms IS NULL;
      -- The background makes the summaries and the postings of these.
      UPDATE traces SET stale_changes = 1 WHERE stale_changes = 0;
    `);
  },
};
