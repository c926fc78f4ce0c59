import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** The program that sent a rejected item or refused request; null for the entries of earlier versions. */
export const clientOfRejection: FileMigration = {
  name: '0015-rejection-clients',
  apply(db) {
    db.exec('ALTER TABLE rejections ADD COLUMN client TEXT');
  },
};
