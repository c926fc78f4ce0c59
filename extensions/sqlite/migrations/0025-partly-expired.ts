import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Batches that had events of an expired trace when other traces kept them. */
export const partlyExpiredTable: FileMigration = {
  name: '0025-partly-expired',
  apply(db) {
    db.exec('CREATE TABLE partly_expired (seq INTEGER PRIMARY KEY) STRICT');
  },
};
