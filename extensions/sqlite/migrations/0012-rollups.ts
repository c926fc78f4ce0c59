import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/**
 * Rollups (`src/store/rollups`): numbers of traces by hour and by day. The traces of earlier versions are added in the
 * background, with their summary.
 */
export const rollupTables: FileMigration = {
  name: '0012-rollups',
  apply(db) {
    db.exec(`
      -- What the trace contributed.
      ALTER TABLE traces ADD COLUMN rollup TEXT;
      CREATE TABLE rollups (
        project TEXT NOT NULL,
        -- Hours of the period: 1, or 24.
        step INTEGER NOT NULL,
        field INTEGER NOT NULL,
        -- In hours since the epoch.
        start INTEGER NOT NULL,
        value TEXT NOT NULL,
        traces INTEGER NOT NULL,
        observations INTEGER NOT NULL,
        errors INTEGER NOT NULL,
        -- Sums of what clients send may exceed the integers that JavaScript has.
        input REAL NOT NULL,
        output REAL NOT NULL,
        cached REAL NOT NULL,
        cost REAL NOT NULL,
        latencies BLOB NOT NULL,
        PRIMARY KEY (project, step, field, start, value)
      ) STRICT, WITHOUT ROWID;
      -- What writes changed and the background has not added to the rollups yet; readers add it.
      CREATE TABLE rollup_deltas (
        project TEXT NOT NULL,
        n INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        changes TEXT NOT NULL,
        PRIMARY KEY (project, n)
      ) STRICT, WITHOUT ROWID;
      UPDATE traces SET stale_changes = 1 WHERE stale_changes = 0;
    `);
  },
};
