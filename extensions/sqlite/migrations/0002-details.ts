import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** The details of observations, as JSON. */
export const detailsColumn: FileMigration = {
  name: '0002-details',
  apply(db) {
    db.exec('ALTER TABLE observations ADD COLUMN details TEXT');
  },
};
