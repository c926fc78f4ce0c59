import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Sessions of the web UI and their one-time codes, by the SHA-256 of their secret. */
export const uiSessionTables: FileMigration = {
  name: '0013-ui-sessions',
  apply(db) {
    db.exec(`
      CREATE TABLE ui_sessions (
        hash BLOB PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        binding BLOB NOT NULL,
        signed_in_with TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        last_used_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        address TEXT,
        user_agent TEXT
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE ui_codes (
        hash BLOB PRIMARY KEY,
        expires_at INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
    `);
  },
};
