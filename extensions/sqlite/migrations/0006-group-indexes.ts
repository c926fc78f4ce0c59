import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** The traces with a session or a user in the order of time: the walk over sessions and users reads no others. */
export const walkIndexes: FileMigration = {
  name: '0006-group-indexes',
  apply(db) {
    db.exec(`
      CREATE INDEX traces_with_session ON traces (project, at_ms, at_ns, n)
        WHERE session_id IS NOT NULL;
      CREATE INDEX traces_with_user ON traces (project, at_ms, at_ns, n) WHERE user_id IS NOT NULL;
    `);
  },
};
