import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Updates and children that wait for a run expire by their age: without the indexes each look reads all rows of a project. */
export const agesOfWaiting: FileMigration = {
  name: '0024-waiting-ages',
  apply(db) {
    db.exec('CREATE INDEX pending_updates_by_age ON pending_updates (project, received_at)');
    db.exec('CREATE INDEX waiting_children_by_age ON waiting_children (project, received_at)');
  },
};
