/** The file of operations of a directory of queues. */
import type { DatabaseSync } from 'node:sqlite';
import { QUEUE_MIGRATIONS } from './migrations/index.ts';
import {
  QUEUE_GROWING,
  QUEUE_REMOVES_ORPHANS,
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

export const removesOrphans = QUEUE_REMOVES_ORPHANS;

/** Deliveries read what appends have just written, and bodies beyond that wait in the file. */
export const cacheKib = 4096;
