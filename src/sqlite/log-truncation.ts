import type { DatabaseSync } from 'node:sqlite';

/** Asked of a writing thread; answered with whether the log is empty now. */
export const TRUNCATE_LOG = 'sqlite.truncate_log';

/**
 * Moves the log into the file and cuts it off, so that nothing stays in it of what was deleted. Never waits
 * for those who read: while one of them needs the log it answers false.
 */
export function truncateLog(db: DatabaseSync): boolean {
  db.exec('PRAGMA busy_timeout = 0');
  try {
    return db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0;
  } finally {
    db.exec('PRAGMA busy_timeout = 5000');
  }
}
