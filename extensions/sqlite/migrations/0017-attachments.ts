import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Attachments of observations, each content once for a project (src/store/attachments.ts). */
export const attachmentTables: FileMigration = {
  name: '0017-attachments',
  apply(db) {
    db.exec(`
      CREATE TABLE attachments (
        project TEXT NOT NULL,
        sha256 BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        content_type TEXT NOT NULL,
        -- Whether all of its pieces are stored.
        is_complete INTEGER NOT NULL,
        PRIMARY KEY (project, sha256)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE attachment_pieces (
        n INTEGER PRIMARY KEY,
        project TEXT NOT NULL,
        sha256 BLOB NOT NULL,
        piece INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (project, sha256, piece)
      ) STRICT;
      -- The batches whose observations are not written yet.
      CREATE TABLE attachment_holds (
        batch TEXT NOT NULL,
        project TEXT NOT NULL,
        sha256 BLOB NOT NULL,
        PRIMARY KEY (batch, sha256)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX attachment_holds_by_content ON attachment_holds (project, sha256);
      -- The keys of the observations that refer to a content.
      CREATE TABLE attachment_refs (
        project TEXT NOT NULL,
        sha256 BLOB NOT NULL,
        key ANY NOT NULL,
        PRIMARY KEY (project, sha256, key)
      ) STRICT, WITHOUT ROWID;
    `);
  },
};
