import type { FileMigration } from '../../migrate.ts';

/**
 * The time by which answers and recent requests expire, as the last process had it (`SteadyTime`). The log of recent requests has ends by
 * the clock, which may have been far ahead for a while, and a row that does not expire keeps those behind it.
 */
export const queueTimeTable: FileMigration = {
  name: '0004-queue-time',
  apply(db) {
    db.exec(`
      CREATE TABLE queue_time (
        id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL, ahead_ms INTEGER NOT NULL
      ) STRICT;
      DELETE FROM recent_requests;
      DELETE FROM recent_groups`);
  },
};
