/** Expires the answers of a file, and keeps the time by which they expire, in the database threads. */
import type { DatabaseSync } from 'node:sqlite';
import type { KeptTime } from '../../component/steady-time.ts';
import { rows } from '../rows.ts';

/** Expired answers that one step removes. */
const TIDY_ROWS = 500;
/** The longest time for which an answer to an `Idempotency-Key` is kept. */
export const KEPT_MS = 24 * 3_600_000;

export function expiryOperations(db: DatabaseSync) {
  const kept = keptTime(db);
  const keepTime = db.prepare('INSERT OR REPLACE INTO queue_time VALUES (1, :at, :aheadMs)');
  const expire = db.prepare(
    `DELETE FROM idempotency WHERE hash IN (
       SELECT hash FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
  );
  const lower = db.prepare('UPDATE idempotency SET expires_at = ?1 WHERE expires_at > ?1');
  return {
    /**
     * Keeps the time for the next start, and removes some expired answers; returns whether there may be more. Answers of a version that
     * kept no time have ends by its clock, so those of one that was far ahead would not expire for as long.
     */
    'queue.tidy': (time: KeptTime): boolean => {
      if (kept() === undefined) lower.run(time.at + KEPT_MS);
      keepTime.run(time);
      return Number(expire.run(time.at, TIDY_ROWS).changes) === TIDY_ROWS;
    },
  };
}

export function expiryReadOperations(db: DatabaseSync) {
  const kept = keptTime(db);
  return {
    /** The time that the last process kept; null in a new file. */
    'queue.time': (): KeptTime | null => kept() ?? null,
  };
}

function keptTime(db: DatabaseSync): () => KeptTime | undefined {
  const find = rows<KeptTime>(db, 'SELECT at, ahead_ms AS aheadMs FROM queue_time WHERE id = 1');
  return () => find.get();
}
