import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** A batch is kept as long as an update of it waits: without the index each look would read all waiting updates of its project. */
export const updatesByBatch: FileMigration = {
  name: '0023-updates-by-batch',
  apply(db) {
    db.exec('CREATE INDEX pending_updates_by_batch ON pending_updates (batch, project)');
  },
};
