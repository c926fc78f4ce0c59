/** The operations of the queues in a file, in the database thread. A file holds any number of queues. */
import type { DatabaseSync } from 'node:sqlite';
import { appendOperations, beginSequence } from './append-operations.ts';
import { deadLetterOperations, deadLetterReadOperations } from './dead-letter-operations.ts';
import {
  bodiesOf,
  entryOperations,
  entryReadOperations,
  openOperations,
} from './entry-operations.ts';
import { expiryOperations, expiryReadOperations } from './expiry-operations.ts';
import { freeOrphanedParts, partOperations } from './part-operations.ts';
import { recentOperations, recentReadOperations } from './recent-operations.ts';
import { removalOperations, removalReadOperations } from './removal-operations.ts';
import { shrinkOperations, shrinkReadOperations } from './shrinking.ts';
import { usageOperations, usageReadOperations } from './usage-operations.ts';

export type QueueOperations = {
  readonly write: ReturnType<typeof queueWriteOperations>;
  readonly read: ReturnType<typeof queueReadOperations>;
};

type QueueFile = {
  /** A store removes a body by retention; a directory of queues when no branch needs it. */
  readonly keepsBodies: boolean;
  /** Queries for the last numbers of batches that other tables of the file refer to. */
  readonly lastReferred?: readonly string[];
};

export function queueWriteOperations(db: DatabaseSync, { keepsBodies, lastReferred }: QueueFile) {
  freeOrphanedParts(db);
  beginSequence(db, lastReferred);
  const bodies = bodiesOf(db, keepsBodies);
  return {
    ...openOperations(db),
    ...appendOperations(db),
    ...partOperations(db),
    ...entryOperations(db, bodies),
    ...deadLetterOperations(db, bodies),
    ...usageOperations(db, keepsBodies),
    ...recentOperations(db),
    ...expiryOperations(db),
    ...removalOperations(db),
    ...shrinkOperations(db),
  };
}

export function queueReadOperations(db: DatabaseSync) {
  return {
    ...entryReadOperations(db),
    ...deadLetterReadOperations(db),
    ...usageReadOperations(db),
    ...recentReadOperations(db),
    ...expiryReadOperations(db),
    ...removalReadOperations(db),
    ...shrinkReadOperations(db),
  };
}

/** The parts of lost batches, which a salvage leaves out. Their entries stay: a lease reports the loss. */
export const QUEUE_REPAIRS = [
  {
    table: 'batch_parts',
    statement: 'DELETE FROM batch_parts WHERE seq NOT IN (SELECT seq FROM raw_batches)',
  },
] as const;

/**
 * The statement of a salvage that lost entries: each batch without any that fulfills a condition is delivered again, to every branch. A
 * batch does not name its queue, so this needs a file with one queue.
 */
export function lostEntries(where: string): string {
  return `INSERT INTO queue_pending (branch, seq, items, bytes, received_at, attempts, due)
    SELECT b.id, r.seq, r.items,
      length(r.body) + (
        SELECT coalesce(sum(length(p.bytes)), 0) FROM batch_parts JOIN body_parts p USING (n)
        WHERE batch_parts.seq = r.seq),
      r.received_at, 0, 0
    FROM raw_batches r CROSS JOIN queue_branches b
    WHERE (SELECT count(DISTINCT queue) FROM queue_branches) = 1
      AND r.seq NOT IN (SELECT seq FROM queue_pending)
      AND r.seq NOT IN (SELECT seq FROM dead_letters)
      AND r.seq NOT IN (SELECT seq FROM quarantined)
      AND ${where}`;
}

/** Queue operations that need room. */
export const QUEUE_GROWING = ['queue.append', 'queue.remember', 'parts.write'] as const;
