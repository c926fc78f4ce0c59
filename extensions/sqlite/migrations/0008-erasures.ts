import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** Erasures, and the traces and batches that the running ones work on. */
export const erasureTables: FileMigration = {
  name: '0008-erasures',
  apply(db) {
    db.exec(`
      CREATE TABLE erasures (
        n INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        project TEXT NOT NULL,
        is_open INTEGER NOT NULL,
        traces INTEGER NOT NULL,
        observations INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        record TEXT NOT NULL
      ) STRICT;
      CREATE INDEX erasures_by_project ON erasures (project, n);
      CREATE INDEX open_erasures ON erasures (n) WHERE is_open = 1;
      CREATE TABLE erasure_traces (
        erasure TEXT NOT NULL,
        key ANY NOT NULL,
        is_open INTEGER NOT NULL,
        PRIMARY KEY (erasure, key)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX open_erasure_traces ON erasure_traces (erasure, key) WHERE is_open = 1;
      CREATE TABLE erasure_batches (
        erasure TEXT NOT NULL,
        batch INTEGER NOT NULL,
        is_open INTEGER NOT NULL,
        PRIMARY KEY (erasure, batch)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX open_erasure_batches ON erasure_batches (erasure, batch) WHERE is_open = 1;
      -- Ids of erased items that the answers to their requests may repeat.
      CREATE TABLE erasure_items (
        erasure TEXT NOT NULL,
        id TEXT NOT NULL,
        PRIMARY KEY (erasure, id)
      ) STRICT, WITHOUT ROWID;
      -- Trace ids and users that are not stored again, by their hashes.
      CREATE TABLE erasure_blocks (
        project TEXT NOT NULL,
        hash TEXT NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (project, hash)
      ) STRICT, WITHOUT ROWID;
    `);
  },
};
