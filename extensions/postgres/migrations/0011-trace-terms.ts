/**
 * The postings of terms (`src/store/rows/trace-terms.ts`). The traces of earlier versions get theirs in the background, with their
 * summary.
 */
export const postingTables = {
  name: '0011-trace-terms',
  sql: `
    CREATE TABLE trace_terms (
      term bigint NOT NULL,
      at_ms bigint NOT NULL,
      at_ns integer NOT NULL,
      trace bigint NOT NULL,
      PRIMARY KEY (term, at_ms, at_ns, trace)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    -- The posted terms of a trace; NULL before a trace of an earlier version has postings.
    ALTER TABLE traces ADD COLUMN terms bigint[];
    CREATE INDEX traces_without_terms ON traces (n) WHERE terms IS NULL;
    -- The background makes the summaries and the postings of these.
    UPDATE traces SET stale_changes = 1 WHERE stale_changes = 0;
  `,
};
