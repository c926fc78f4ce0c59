/** The log of rejections, usage as it is charted, and the audit log, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import type { Access, OperationOptions, Operations } from '../../src/sqlite/operation.ts';
import { ALL_USAGE } from '../../src/sqlite/queue/usage-operations.ts';
import { rows } from '../../src/sqlite/rows.ts';
import type {
  AuditRow,
  LedgerCheck,
  Numbered,
  ProjectRejections,
  RejectedRow,
  RejectionRow,
  UsageHistory,
  UsedRow,
} from '../../src/tenancy/rows.ts';
import { AUDIT_SCHEMA, auditWriting } from './audit-writing.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS rejections (
    project TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    key TEXT NOT NULL,
    path TEXT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    item TEXT,
    count INTEGER NOT NULL,
    PRIMARY KEY (project, n)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS rejected_hours (
    hour INTEGER NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    code TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, project, key, code)
  ) STRICT, WITHOUT ROWID;
`;

export function operations(
  db: DatabaseSync,
  access: Access,
  _options: OperationOptions,
): Operations {
  if (access === 'read') return { calls: readingCalls(db) };
  db.exec(SCHEMA);
  db.exec(AUDIT_SCHEMA);
  return {
    calls: { ...rejectionCalls(db), 'audit.record': auditWriting(db).record },
    growing: ['rejections.record', 'audit.record'],
  };
}

function rejectionCalls(db: DatabaseSync): Operations['calls'] {
  const newest = rows<{ n: number }>(
    db,
    'SELECT coalesce(max(n), 0) AS n FROM rejections WHERE project = ?',
  );
  const insert = db.prepare('INSERT INTO rejections VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)');
  const trim = db.prepare('DELETE FROM rejections WHERE project = ? AND n <= ?');
  const isKnown = db.prepare('SELECT 1 FROM deleted_projects WHERE project = ?');
  const count = db.prepare(
    `INSERT INTO rejected_hours VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET count = count + excluded.count`,
  );
  return {
    /** Keeps the newest `most` of every project; the counts by hour stay. */
    'rejections.record': (
      projects: readonly ProjectRejections[],
      counts: readonly RejectedRow[],
      most: number,
    ): void => {
      for (const { project, rows } of projects) {
        if (isKnown.get(project) !== undefined) continue;
        let n = newest.get(project)?.n ?? 0;
        for (const { at, key, path, code, reason, item, count } of rows) {
          insert.run(project, ++n, at, key, path, code, reason, item, count);
        }
        trim.run(project, n - most);
      }
      for (const row of counts) count.run(row.hour, row.project, row.key, row.code, row.count);
    },
  };
}

function readingCalls(db: DatabaseSync): Operations['calls'] {
  const rejections = rows<Numbered<RejectionRow>>(
    db,
    `SELECT n, at, key, path, code, reason, item, count FROM rejections WHERE project = ? AND n < ? AND at >= ?
     ORDER BY n DESC LIMIT ?`,
  );
  const used = rows<UsedRow>(
    db,
    `SELECT hour, project, key, sum(events) AS events, sum(bytes) AS bytes FROM ${ALL_USAGE}
     WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR project = ?3) GROUP BY hour, project, key`,
  );
  const rejected = rows<RejectedRow>(
    db,
    `SELECT hour, project, key, code, count FROM rejected_hours
     WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR project = ?3)`,
  );
  const audit = rows<Numbered<AuditRow>>(
    db,
    `SELECT n, at, actor, address, action, subject, details FROM audit_log
     WHERE n < ? ORDER BY n DESC LIMIT ?`,
  );
  const check = rows<LedgerCheck>(
    db,
    `SELECT project, key, sum(events) AS events, sum(bytes) AS bytes,
       sum(kept_events) AS keptEvents, sum(kept_bytes) AS keptBytes
     FROM (
       SELECT project, key, events, bytes, 0 AS kept_events, 0 AS kept_bytes FROM ${ALL_USAGE}
       UNION ALL SELECT project, key, 0, 0, usage_events, usage_bytes FROM raw_batches)
     GROUP BY project, key`,
  );
  return {
    'rejections.list': (project: string, before: number, since: number, limit: number) =>
      rejections.all(project, before, since, limit),
    'usage.history': (from: number, to: number, project: string | null): UsageHistory => ({
      used: used.all(from, to, project),
      rejected: rejected.all(from, to, project),
    }),
    'usage.check': () => check.all(),
    'audit.list': (before: number, limit: number) => audit.all(before, limit),
  };
}
