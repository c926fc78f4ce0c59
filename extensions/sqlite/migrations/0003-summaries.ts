import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/**
 * The summary of a trace's observations (`src/store/rows/trace-summary.ts`). The traces of earlier versions get theirs in the
 * background; `model_usage` and `other_usage` are read until then, and are not written any more.
 */
export const summaryColumns: FileMigration = {
  name: '0003-summaries',
  apply(db) {
    for (const column of COLUMNS) db.exec(`ALTER TABLE traces ADD COLUMN ${column}`);
    db.exec('CREATE INDEX stale_traces ON traces (n) WHERE stale_changes > 0');
  },
};

const COLUMNS = [
  'key_id TEXT',
  'latency REAL',
  'ttft REAL',
  'errors INTEGER',
  'source INTEGER',
  'is_ended INTEGER',
  'newest_ms INTEGER',
  'session_id TEXT',
  'user_id TEXT',
  'environment TEXT',
  'release TEXT',
  'input_tokens INTEGER',
  'output_tokens INTEGER',
  'tokens INTEGER',
  'cost INTEGER',
  'is_skewed INTEGER',
  // Members without a column of their own, as JSON.
  'facts TEXT',
  // Changes since the summary was made; 1 for the traces of earlier versions, which have none.
  'stale_changes INTEGER NOT NULL DEFAULT 1',
];
