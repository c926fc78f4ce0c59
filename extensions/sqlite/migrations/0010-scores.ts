import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Scores belong to the key of a trace, which may arrive after them. */
export const scoresTable: FileMigration = {
  name: '0010-scores',
  apply(db) {
    db.exec(`
      CREATE TABLE scores (
        project TEXT NOT NULL,
        trace ANY NOT NULL,
        id TEXT NOT NULL,
        observation TEXT,
        name TEXT NOT NULL,
        -- JSON: a number, a boolean or a text.
        value TEXT NOT NULL,
        number REAL,
        comment TEXT,
        source TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        PRIMARY KEY (project, trace, id)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX scores_by_age ON scores (project, updated_at);
    `);
  },
};
