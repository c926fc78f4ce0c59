import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { storeTables } from './0001-store.ts';
import { detailsColumn } from './0002-details.ts';
import { summaryColumns } from './0003-summaries.ts';
import { searchIndexes } from './0004-trace-indexes.ts';
import { recentRequests } from './0005-recent-requests.ts';
import { walkIndexes } from './0006-group-indexes.ts';
import { traceTermTables } from './0007-trace-terms.ts';
import { erasureTables } from './0008-erasures.ts';
import { observationOrder } from './0009-observation-order.ts';
import { scoresTable } from './0010-scores.ts';
import { previewColumns } from './0011-previews.ts';
import { rollupTables } from './0012-rollups.ts';
import { uiSessionTables } from './0013-ui-sessions.ts';
import { scoresById } from './0014-score-ids.ts';
import { clientOfRejection } from './0015-rejection-clients.ts';
import { textSearchTables } from './0016-text-search.ts';
import { attachmentTables } from './0017-attachments.ts';
import { recentGroups } from './0018-recent-groups.ts';
import { groupSums } from './0019-group-sums.ts';
import { copyColumn } from './0020-copies.ts';
import { postedTraces } from './0021-posted-traces.ts';
import { groupedTraces } from './0022-grouped-traces.ts';
import { updatesByBatch } from './0023-updates-by-batch.ts';
import { agesOfWaiting } from './0024-waiting-ages.ts';
import { partlyExpiredTable } from './0025-partly-expired.ts';
import { knownTimeTable } from './0026-known-time.ts';
import { queueTime } from './0027-queue-time.ts';

/** The migrations of a store, in their order. */
export const STORE_MIGRATIONS: readonly FileMigration[] = [
  storeTables,
  detailsColumn,
  summaryColumns,
  searchIndexes,
  recentRequests,
  walkIndexes,
  traceTermTables,
  erasureTables,
  observationOrder,
  scoresTable,
  previewColumns,
  rollupTables,
  uiSessionTables,
  scoresById,
  clientOfRejection,
  textSearchTables,
  attachmentTables,
  recentGroups,
  groupSums,
  copyColumn,
  postedTraces,
  groupedTraces,
  updatesByBatch,
  agesOfWaiting,
  partlyExpiredTable,
  knownTimeTable,
  queueTime,
];
