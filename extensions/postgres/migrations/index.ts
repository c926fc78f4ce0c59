import type { Migration } from '../connection/migrate.ts';
import { batches } from './0001-batches.ts';
import { queues } from './0002-queues.ts';
import { tenancy } from './0003-tenancy.ts';
import { traces } from './0004-traces.ts';
import { leases } from './0005-leases.ts';
import { details } from './0006-details.ts';
import { earlySums } from './0007-early-sums.ts';
import { summaries } from './0008-summaries.ts';
import { traceIndexes } from './0009-trace-indexes.ts';
import { groupIndexes } from './0010-group-indexes.ts';
import { postingTables } from './0011-trace-terms.ts';
import { erasures } from './0012-erasures.ts';
import { orderOfObservations } from './0013-observation-order.ts';
import { scoreTable } from './0014-scores.ts';
import { previews } from './0015-previews.ts';
import { partitionedTraces } from './0016-trace-partitions.ts';
import { rollups } from './0017-rollups.ts';
import { uiSessions } from './0018-ui-sessions.ts';
import { scoreIdIndex } from './0019-score-ids.ts';
import { clientsOfRejections } from './0020-rejection-clients.ts';
import { textSearch } from './0021-text-search.ts';
import { attachmentContents } from './0022-attachments.ts';
import { copyKeys } from './0023-copies.ts';
import { giveBackOrder } from './0024-give-back-order.ts';
import { hourBound } from './0025-hour-bound.ts';
import { waitingAges } from './0026-waiting-ages.ts';
import { expiryAges } from './0027-expiry-ages.ts';
import { partlyExpired } from './0028-partly-expired.ts';

/** In the order they are applied. */
export const MIGRATIONS: readonly Migration[] = [
  batches,
  queues,
  tenancy,
  traces,
  leases,
  details,
  earlySums,
  summaries,
  traceIndexes,
  groupIndexes,
  postingTables,
  erasures,
  orderOfObservations,
  scoreTable,
  previews,
  partitionedTraces,
  rollups,
  uiSessions,
  scoreIdIndex,
  clientsOfRejections,
  textSearch,
  attachmentContents,
  copyKeys,
  giveBackOrder,
  hourBound,
  waitingAges,
  expiryAges,
  partlyExpired,
];
