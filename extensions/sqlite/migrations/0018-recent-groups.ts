import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { recentGroupsTable } from '../../../src/sqlite/queue/migrations/0003-recent-groups.ts';

/** The log of requests without an `Idempotency-Key` by groups, as directories of queues have it. */
export const recentGroups: FileMigration = {
  name: '0018-recent-groups',
  apply: recentGroupsTable.apply,
};
