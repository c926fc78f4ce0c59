/** The file of operations of a directory of queues. */
import type { DatabaseSync } from 'node:sqlite';
import { QUEUE_MIGRATIONS } from './migrations/index.ts';
import {
  QUEUE_GROWING,
  QUEUE_REPAIRS,
  queueReadOperations,
  queueWriteOperations,
} from './operations.ts';
import { recentLog } from './recent-log.ts';

export function writeOperations(db: DatabaseSync) {
  // Overwrites deleted data in the pages that a deletion writes anyway. An erasure gives the free pages back to the disk.
  db.exec('PRAGMA secure_delete = FAST');
  return queueWriteOperations(db, { keepsBodies: false });
}

export const groupEnd = recentLog;

export function readOperations(db: DatabaseSync) {
  return queueReadOperations(db);
}

export const migrations = QUEUE_MIGRATIONS;

export const growing = QUEUE_GROWING;

/**
 * The file has a batch only as long as a branch or a dead letter needs it, so a batch without any has lost its entries: it is delivered again,
 * to every branch. A batch does not name its queue, so this needs a file with one queue.
 */
export const repairs = [
  ...QUEUE_REPAIRS,
  {
    table: 'queue_pending',
    ifIncomplete: true,
    statement: `INSERT INTO queue_pending (branch, seq, items, bytes, received_at, attempts, due)
      SELECT b.id, r.seq, r.items,
        length(r.body) + (
          SELECT coalesce(sum(length(p.bytes)), 0) FROM batch_parts JOIN body_parts p USING (n)
          WHERE batch_parts.seq = r.seq),
        r.received_at, 0, 0
      FROM raw_batches r CROSS JOIN queue_branches b
      WHERE (SELECT count(DISTINCT queue) FROM queue_branches) = 1
        AND r.seq NOT IN (SELECT seq FROM queue_pending)
        AND r.seq NOT IN (SELECT seq FROM dead_letters)
        AND r.seq NOT IN (SELECT seq FROM quarantined)`,
  },
] as const;

/** Deliveries read what appends have just written, and bodies beyond that wait in the file. */
export const cacheKib = 4096;
