import type { FileMigration } from '../../migrate.ts';

/** The log of requests without an `Idempotency-Key` whose items were all accepted, one row for each group of appends. */
export const recentGroupsTable: FileMigration = {
  name: '0003-recent-groups',
  apply: (db) => db.exec(TABLE),
};

/**
 * `entries` has a line for each request: the JSON of its tag, project and batch. `last_seq` is the number of its last batch. Rows of
 * `recent_requests` have tags of another hash, which no request has any more.
 */
const TABLE = `
  CREATE TABLE IF NOT EXISTS recent_groups (
    last_seq INTEGER PRIMARY KEY,
    expires_at INTEGER NOT NULL,
    entries TEXT NOT NULL
  ) STRICT;
  DELETE FROM recent_requests;
`;
