import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Observations that a client sends as a run and as a span (src/store/rows/copies.ts). Few rows have a cell in the column. */
export const copyColumn: FileMigration = {
  name: '0020-copies',
  apply(db) {
    db.exec(`
      ALTER TABLE observations ADD COLUMN copy TEXT;
      CREATE INDEX observations_by_copy ON observations (copy) WHERE copy IS NOT NULL;
    `);
  },
};
