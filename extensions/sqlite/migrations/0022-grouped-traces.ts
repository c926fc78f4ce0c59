import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { buildGroupIndexes } from './0019-group-sums.ts';

/**
 * The indexes of the traces of a session and of a user have posted traces only: new entries are spread over the whole index, so the
 * background adds those of many traces at once (`extensions/sqlite/traces/postings.ts`).
 */
export const groupedTraces: FileMigration = {
  name: '0022-grouped-traces',
  apply(db) {
    db.exec(`
      ALTER TABLE traces ADD COLUMN is_grouped INTEGER NOT NULL DEFAULT 1;
      UPDATE traces SET is_grouped = 0
        WHERE n > coalesce((SELECT n FROM posted_traces WHERE id = 1), 0);
    `);
    buildGroupIndexes(db, 'AND is_grouped = 1');
  },
};
