import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** The tables beside the index of payload text, which is a file of its own (`search/index-operations.ts`). */
export const textSearchTables: FileMigration = {
  name: '0016-text-search',
  apply(db) {
    db.exec(`
      -- The bytes of a field that are searched; no row without payload search.
      CREATE TABLE text_search (id INTEGER PRIMARY KEY CHECK (id = 1), bytes INTEGER NOT NULL) STRICT;
      -- Changes that the index does not have. Without an observation the whole trace was removed.
      CREATE TABLE text_changes (
        n INTEGER PRIMARY KEY,
        trace INTEGER NOT NULL,
        observation INTEGER
      ) STRICT;
    `);
  },
};
