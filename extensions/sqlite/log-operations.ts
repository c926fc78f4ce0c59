/** The log of rejections, usage as it is charted, and the audit log, in the database thread. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Access, OperationOptions, Operations } from '../../src/sqlite/operation.ts';
import { ALL_USAGE } from '../../src/sqlite/queue/usage-operations.ts';
import type { RejectedRow, RejectionRow, UsedRow } from '../../src/tenancy/rows.ts';
import { AUDIT_COLUMNS, AUDIT_SCHEMA, auditWriting } from './audit-writing.ts';

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

const REJECTION_COLUMNS = 'at, key, path, code, reason, item, count';

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

function rows(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

function rejectionCalls(db: DatabaseSync): Operations['calls'] {
  const newest = rows(db, 'SELECT coalesce(max(n), 0) FROM rejections WHERE project = ?');
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
      projects: readonly (readonly [project: string, rows: readonly RejectionRow[]])[],
      counts: readonly RejectedRow[],
      most: number,
    ): void => {
      for (const [project, entries] of projects) {
        if (isKnown.get(project) !== undefined) continue;
        let [n] = newest.get(project) as unknown as [number];
        for (const entry of entries) insert.run(project, ++n, ...entry);
        trim.run(project, n - most);
      }
      for (const row of counts) count.run(...row);
    },
  };
}

function readingCalls(db: DatabaseSync): Operations['calls'] {
  const rejections = rows(
    db,
    `SELECT n, ${REJECTION_COLUMNS} FROM rejections WHERE project = ? AND n < ? AND at >= ?
     ORDER BY n DESC LIMIT ?`,
  );
  const used = rows(
    db,
    `SELECT hour, project, key, sum(events), sum(bytes) FROM ${ALL_USAGE}
     WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR project = ?3) GROUP BY hour, project, key`,
  );
  const rejected = rows(
    db,
    `SELECT hour, project, key, code, count FROM rejected_hours
     WHERE hour >= ?1 AND hour < ?2 AND (?3 IS NULL OR project = ?3)`,
  );
  const audit = rows(
    db,
    `SELECT n, ${AUDIT_COLUMNS} FROM audit_log WHERE n < ? ORDER BY n DESC LIMIT ?`,
  );
  const check = rows(
    db,
    `SELECT project, key, sum(events), sum(bytes), sum(kept_events), sum(kept_bytes) FROM (
       SELECT project, key, events, bytes, 0 AS kept_events, 0 AS kept_bytes FROM ${ALL_USAGE}
       UNION ALL SELECT project, key, 0, 0, usage_events, usage_bytes FROM raw_batches)
     GROUP BY project, key`,
  );
  return {
    'rejections.list': (project: string, before: number, since: number, limit: number) =>
      rejections.all(project, before, since, limit),
    'usage.history': (
      from: number,
      to: number,
      project: string | null,
    ): [UsedRow[], RejectedRow[]] => [
      used.all(from, to, project) as unknown as UsedRow[],
      rejected.all(from, to, project) as unknown as RejectedRow[],
    ],
    'usage.check': () => check.all(),
    'audit.list': (before: number, limit: number) => audit.all(before, limit),
  };
}
