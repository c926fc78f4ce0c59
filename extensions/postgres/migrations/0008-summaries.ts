/**
 * The summary of a trace's observations (`src/store/rows/trace-summary.ts`). The traces of earlier versions get theirs in the
 * background; `model_usage` and `other_usage` are read until then, and are not written any more.
 */
export const summaries = {
  name: '0008-summaries',
  sql: `
    ALTER TABLE traces
      ADD COLUMN key_id text COLLATE "C",
      ADD COLUMN latency float8,
      ADD COLUMN ttft float8,
      ADD COLUMN errors integer,
      ADD COLUMN source integer,
      ADD COLUMN is_ended integer,
      ADD COLUMN newest_ms bigint,
      ADD COLUMN session_id text COLLATE "C",
      ADD COLUMN user_id text COLLATE "C",
      ADD COLUMN environment text COLLATE "C",
      ADD COLUMN release text COLLATE "C",
      ADD COLUMN input_tokens bigint,
      ADD COLUMN output_tokens bigint,
      ADD COLUMN tokens bigint,
      ADD COLUMN cost bigint,
      ADD COLUMN is_skewed integer,
      -- Members without a column of their own, as JSON.
      ADD COLUMN facts text,
      -- The number of changes since the summary was made; 1 for the traces of earlier versions, which have none.
      ADD COLUMN stale_changes integer NOT NULL DEFAULT 1,
      DROP COLUMN root_has_parent,
      DROP COLUMN root_ms,
      DROP COLUMN root_ns;
    CREATE INDEX stale_traces ON traces (n) WHERE stale_changes > 0;
  `,
};
