/** The log of rejections, the history of usage, and the audit log, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { deletedProjects } from '../../../src/sqlite/queue/lookups.ts';
import { ALL_USAGE } from '../../../src/sqlite/queue/usage-operations.ts';
import { cell, rows } from '../../../src/sqlite/rows.ts';
import type { KeyUsage } from '../../../src/tenancy/ledger-totals.ts';
import { LedgerTotals } from '../../../src/tenancy/ledger-totals.ts';
import type {
  AuditMatching,
  AuditRow,
  LedgerCheck,
  Numbered,
  ProjectRejections,
  RejectedRow,
  RejectionRow,
  UsageHistory,
  UsedRow,
} from '../../../src/tenancy/rows.ts';
import { auditWriting } from './audit-writing.ts';

export type KeptPage = {
  readonly count: number;
  readonly checks: readonly LedgerCheck[];
  /** Rows of the ledger that differ from their batches. */
  readonly altered: readonly LedgerCheck[];
  readonly next: number | null;
};

/** A batch, and what its row in the ledger counts; null without a row. */
type KeptRow = KeyUsage & {
  readonly seq: number;
  readonly id: string;
  readonly countedEvents: number | null;
  readonly countedBytes: number | null;
};

export function logOperations(db: DatabaseSync) {
  const newest = cell<number>(db, 'SELECT coalesce(max(n), 0) FROM rejections WHERE project = ?');
  const insert = db.prepare('INSERT INTO rejections VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
  const trim = db.prepare('DELETE FROM rejections WHERE project = ? AND n <= ?');
  const isDeleted = deletedProjects(db);
  const count = db.prepare(
    `INSERT INTO rejected_hours VALUES (:hour, :project, :key, :code, :count)
     ON CONFLICT DO UPDATE SET count = count + excluded.count`,
  );
  return {
    /** Keeps the newest `most` rejections of every project; the counts per hour stay. */
    'rejections.record': (
      projects: readonly ProjectRejections[],
      counts: readonly RejectedRow[],
      most: number,
    ): void => {
      for (const { project, rows } of projects) {
        if (isDeleted(project)) continue;
        let n = newest(project) ?? 0;
        for (const { at, key, path, code, reason, item, count, client } of rows) {
          insert.run(project, ++n, at, key, path, code, reason, item, count, client);
        }
        trim.run(project, n - most);
      }
      for (const row of counts) count.run(row);
    },
    'audit.record': auditWriting(db).record,
  };
}

export function logReadOperations(db: DatabaseSync) {
  const rejections = rows<Numbered<RejectionRow>>(
    db,
    `SELECT n, at, key, path, code, reason, item, count, client FROM rejections
     WHERE project = ? AND n < ? AND at >= ? ORDER BY n DESC LIMIT ?`,
  );
  const used = rows<UsedRow>(
    db,
    `SELECT hour - hour % ?3 AS hour, project, key, sum(events) AS events, sum(bytes) AS bytes
     FROM ${ALL_USAGE} WHERE hour >= ?1 AND hour < ?2 AND (?4 IS NULL OR project = ?4)
     GROUP BY 1, project, key`,
  );
  const rejected = rows<RejectedRow>(
    db,
    `SELECT hour - hour % ?3 AS hour, project, key, code, sum(count) AS count FROM rejected_hours
     WHERE hour >= ?1 AND hour < ?2 AND (?4 IS NULL OR project = ?4) GROUP BY 1, project, key, code`,
  );
  const audit = rows<Numbered<AuditRow>>(
    db,
    `SELECT n, at, actor, address, action, subject, details FROM audit_log
     WHERE n < ?1 AND at >= ?3 AND at < ?4
       AND (?5 IS NULL OR action = ?5) AND (?6 IS NULL OR actor = ?6)
       AND (?7 IS NULL OR subject = ?7 OR instr(details, '"project_id":"' || ?7 || '"') > 0
         OR instr(details, '"project":"' || ?7 || '"') > 0)
     ORDER BY n DESC LIMIT ?2`,
  );
  // Past hours are summed up, and their batches have no row in the ledger.
  const kept = rows<KeptRow>(
    db,
    `SELECT seq, id, b.project, b.key, usage_events AS events, usage_bytes AS bytes,
       l.events AS countedEvents, l.bytes AS countedBytes
     FROM raw_batches b LEFT JOIN usage_ledger l ON l.batch_id = b.id
     WHERE seq > ? ORDER BY seq LIMIT ?`,
  );
  return {
    'rejections.list': (
      project: string,
      before: number,
      since: number,
      limit: number,
    ): Numbered<RejectionRow>[] => rejections.all(project, before, since, limit),
    'usage.history': (
      ...range: [from: number, to: number, periodHours: number, project: string | null]
    ): UsageHistory => ({ used: used.all(...range), rejected: rejected.all(...range) }),
    /** Usage of the batches behind `after`, and where the next page begins; null at the end. */
    'usage.kept': (after: number, step: number): KeptPage => {
      const found = kept.all(after, step);
      const totals = new LedgerTotals();
      for (const batch of found) totals.addBatches(batch);
      const next = found.length < step ? null : (found.at(-1)?.seq ?? null);
      return { count: found.length, checks: totals.checks(), altered: alteredAmong(found), next };
    },
    'audit.list': (before: number, limit: number, matching: AuditMatching): Numbered<AuditRow>[] =>
      audit.all(before, limit, ...matching),
  };
}

function alteredAmong(found: readonly KeptRow[]): LedgerCheck[] {
  return found.flatMap(({ id, project, key, events, bytes, countedEvents, countedBytes }) => {
    if (countedEvents === null || countedBytes === null) return [];
    if (countedEvents === events && countedBytes === bytes) return [];
    const kept = { keptEvents: events, keptBytes: bytes };
    return [{ batchId: id, project, key, events: countedEvents, bytes: countedBytes, ...kept }];
  });
}
