import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { recentRequestsTable } from '../../../src/sqlite/queue/migrations/0002-recent-requests.ts';

/** The log of requests without an `Idempotency-Key`, as directories of queues have it. */
export const recentRequests: FileMigration = {
  name: '0005-recent-requests',
  apply: recentRequestsTable.apply,
};
