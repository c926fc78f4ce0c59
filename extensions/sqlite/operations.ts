/** The file of operations of a store: its queues, tenancy, traces and batches, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import {
  lostEntries,
  QUEUE_GROWING,
  QUEUE_REPAIRS,
  queueReadOperations,
  queueWriteOperations,
} from '../../src/sqlite/queue/operations.ts';
import { recentLog } from '../../src/sqlite/queue/recent-log.ts';
import type { StorePrices } from '../../src/store/pricing.ts';
import { attachmentOperations, attachmentReadOperations } from './attachments/operations.ts';
import { purgeOperations, purgeReadOperations } from './batches/purge-operations.ts';
import { answerOperations } from './erasing/answer-operations.ts';
import { cleanOperations, cleanReadOperations } from './erasing/clean-operations.ts';
import { erasureOperations, erasureReadOperations } from './erasing/erasure-operations.ts';
import { expiredOperations, expiredReadOperations } from './erasing/expired-operations.ts';
import { STORE_MIGRATIONS } from './migrations/index.ts';
import { textChangeOperations, textReadOperations } from './search/change-operations.ts';
import { logOperations, logReadOperations } from './tenancy/log-operations.ts';
import { tenancyOperations, tenancyReadOperations } from './tenancy/operations.ts';
import { uiSessionOperations, uiSessionReadOperations } from './tenancy/ui-session-operations.ts';
import { backlogOperations } from './traces/backlog.ts';
import { exportOperations } from './traces/export-operations.ts';
import { groupOperations } from './traces/group-operations.ts';
import { postingOperations } from './traces/posting-operations.ts';
import { pricingOperations } from './traces/pricing-operations.ts';
import { rankOperations } from './traces/rank-operations.ts';
import { traceReadOperations } from './traces/read-operations.ts';
import { foldReadOperations, rollupOperations } from './traces/rollup-operations.ts';
import { rollupReadOperations } from './traces/rollup-reading.ts';
import { scoreOperations, scoreReadOperations } from './traces/score-operations.ts';
import { COUNTED_CHANGE } from './traces/statements.ts';
import { valueOperations } from './traces/value-operations.ts';
import { traceOperations } from './traces/write-operations.ts';

export function writeOperations(db: DatabaseSync) {
  // Overwrites deleted data in its pages too. A store deletes little while it accepts: the cells that it frees
  // are in pages that it writes anyway.
  db.exec('PRAGMA secure_delete = ON');
  const prices: StorePrices = { pricing: undefined };
  return {
    ...queueWriteOperations(db, {
      keepsBodies: true,
      lastReferred: [
        'SELECT max(batch) FROM batch_traces',
        'SELECT max(batch) FROM pending_updates',
      ],
    }),
    ...tenancyOperations(db),
    ...logOperations(db),
    ...uiSessionOperations(db),
    ...traceOperations(db, prices),
    ...pricingOperations(db, prices),
    ...scoreOperations(db),
    ...attachmentOperations(db),
    ...rollupOperations(db),
    ...postingOperations(db),
    ...purgeOperations(db),
    ...erasureOperations(db),
    ...answerOperations(db),
    ...cleanOperations(db),
    ...expiredOperations(db),
    ...textChangeOperations(db),
  };
}

export const groupEnd = recentLog;

export function readOperations(db: DatabaseSync) {
  return {
    ...queueReadOperations(db),
    ...tenancyReadOperations(db),
    ...logReadOperations(db),
    ...uiSessionReadOperations(db),
    ...traceReadOperations(db),
    ...rankOperations(db),
    ...exportOperations(db),
    ...valueOperations(db),
    ...scoreReadOperations(db),
    ...attachmentReadOperations(db),
    ...foldReadOperations(db),
    ...rollupReadOperations(db),
    ...groupOperations(db),
    ...backlogOperations(db),
    ...purgeReadOperations(db),
    ...erasureReadOperations(db),
    ...cleanReadOperations(db),
    ...expiredReadOperations(db),
    ...textReadOperations(db),
  };
}

export const migrations = STORE_MIGRATIONS;

/** A store without them would be a new one, or refuse its clients. */
export const essential = ['organizations', 'projects', 'api_keys'] as const;

/** The background posts the terms of each trace again. */
export const derived = {
  name: 'trace_terms',
  remake: `UPDATE traces SET terms = NULL, ${COUNTED_CHANGE}`,
} as const;

/** The tables with the batches that were delivered to the store. */
const DELIVERED_TABLES = ['batch_traces', 'pending_updates', 'free_batches', 'partly_expired'];

/**
 * A row of an observation does not name its project: it would be shown in the trace that gets the number. An erasure and the retention find
 * the batches of a trace by the pairs, so observations whose pair is lost get it again. A pass of an erasure would take a new batch for
 * one that it has cleaned. An attachment that lacks pieces is stored again when a client sends it again. A batch that no trace has events
 * of was not delivered to the store; this is known only if no row that a delivery makes is lost.
 */
export const repairs = [
  ...QUEUE_REPAIRS,
  {
    table: 'observations',
    statement: 'DELETE FROM observations WHERE trace NOT IN (SELECT n FROM traces)',
  },
  {
    table: 'batch_traces',
    statement: 'DELETE FROM batch_traces WHERE trace NOT IN (SELECT n FROM traces)',
  },
  {
    table: 'batch_traces',
    statement: `INSERT OR IGNORE INTO batch_traces
      SELECT batch, trace FROM observations
      UNION ALL
      SELECT m.value ->> 0, o.trace
      FROM observations o, json_each(CASE WHEN json_valid(o.merged) THEN o.merged END) m
      WHERE m.type = 'array' AND typeof(m.value ->> 0) = 'integer'`,
  },
  {
    table: 'queue_pending',
    ifIncomplete: true,
    ifComplete: ['traces', 'observations', ...DELIVERED_TABLES],
    statement: lostEntries(`r.items > 0
      AND r.project NOT IN (SELECT project FROM deleted_projects)
      AND r.seq NOT IN (SELECT batch FROM batch_traces)
      AND r.seq NOT IN (SELECT batch FROM pending_updates)
      AND r.seq NOT IN (SELECT seq FROM free_batches)
      AND r.seq NOT IN (SELECT seq FROM partly_expired)`),
  },
  {
    table: 'erasure_batches',
    statement: 'DELETE FROM erasure_batches WHERE batch NOT IN (SELECT seq FROM raw_batches)',
  },
  {
    table: 'partly_expired',
    statement: 'DELETE FROM partly_expired WHERE seq NOT IN (SELECT seq FROM raw_batches)',
  },
  {
    table: 'attachment_pieces',
    statement: `DELETE FROM attachment_pieces
      WHERE (project, sha256) NOT IN (SELECT project, sha256 FROM attachments)`,
  },
  {
    table: 'attachments',
    statement: `UPDATE attachments AS a SET is_complete = 0 WHERE bytes <> (
      SELECT coalesce(sum(length(p.bytes)), 0) FROM attachment_pieces p
      WHERE p.project = a.project AND p.sha256 = a.sha256)`,
  },
] as const;

export const growing = [
  ...QUEUE_GROWING,
  'projects.create',
  'keys.create',
  'traces.write',
  'traces.group',
  'traces.post',
  'costs.priceAgain',
  'scores.put',
  'attachments.hold',
  'attachments.addPiece',
  'rejections.record',
  'audit.record',
  'erasing.add',
] as const satisfies readonly (keyof ReturnType<typeof writeOperations>)[];

/** The type of the operations of a store. */
export type StoreOperations = {
  readonly write: ReturnType<typeof writeOperations>;
  readonly read: ReturnType<typeof readOperations>;
};
