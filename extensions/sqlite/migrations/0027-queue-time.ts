import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { queueTimeTable } from '../../../src/sqlite/queue/migrations/0004-queue-time.ts';

/** The time by which answers and recent requests expire, as directories of queues have it. */
export const queueTime: FileMigration = { name: '0027-queue-time', apply: queueTimeTable.apply };
