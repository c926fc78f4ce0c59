/** The file of operations of a directory of queues. */
import type { DatabaseSync } from 'node:sqlite';
import { QUEUE_MIGRATIONS } from './migrations/index.ts';
import {
  lostEntries,
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

/** The file has a batch only as long as a branch or a dead letter needs it, so a batch without any has lost its entries. */
export const repairs = [
  ...QUEUE_REPAIRS,
  { table: 'queue_pending', ifIncomplete: true, statement: lostEntries('TRUE') },
] as const;

/** Deliveries read what appends have just written, and bodies beyond that wait in the file. */
export const cacheKib = 4096;
