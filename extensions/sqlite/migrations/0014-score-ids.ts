import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Clients name a score by its id alone. */
export const scoresById: FileMigration = {
  name: '0014-score-ids',
  apply(db) {
    db.exec('CREATE INDEX scores_by_id ON scores (project, id);');
  },
};
