import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** A time at which the clock was right, so that a start finds whether it is far ahead (`extensions/sqlite/clock-watch.ts`). */
export const knownTimeTable: FileMigration = {
  name: '0026-known-time',
  apply(db) {
    db.exec(`
      CREATE TABLE known_time (
        id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL, waited_ms INTEGER NOT NULL
      ) STRICT`);
  },
};
