import type { FileMigration } from '../../migrate.ts';
import { queueTables } from './0001-queues.ts';
import { recentRequestsTable } from './0002-recent-requests.ts';
import { recentGroupsTable } from './0003-recent-groups.ts';
import { queueTimeTable } from './0004-queue-time.ts';

/**
 * The migrations of a directory of queues, in their order. A store has the same tables: a migration here also becomes
 * a part of the next one in extensions/sqlite/migrations.
 */
export const QUEUE_MIGRATIONS: readonly FileMigration[] = [
  queueTables,
  recentRequestsTable,
  recentGroupsTable,
  queueTimeTable,
];
