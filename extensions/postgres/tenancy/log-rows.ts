import type {
  AuditRow,
  LedgerCheck,
  RejectedRow,
  RejectionRow,
  TenancyRows,
  UsedRow,
} from '../../../src/tenancy/rows.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient, Row } from '../connection/statement.ts';
import { fromText, toText } from '../connection/text.ts';

type LogRows = Pick<
  TenancyRows,
  'recordRejections' | 'rejections' | 'recordAudit' | 'audit' | 'usedAndRejected' | 'ledgerChecks'
>;

const REJECTION_COLUMNS = ['at', 'key', 'path', 'code', 'reason', 'item', 'count'] as const;
const REJECTED_COLUMNS = ['hour', 'project', 'key', 'code', 'count'] as const;

/** The log of rejections, the audit log, and usage as it is charted. */
export function logRows(postgres: Postgres): LogRows {
  return {
    recordRejections: (projects, counts, most) =>
      postgres.transaction(async (client) => {
        for (const { project, rows } of projects) await addRejections(client, project, rows, most);
        await addCounts(client, counts);
      }),
    async rejections(project, before, since, limit) {
      const { rows } = await postgres.query(
        `SELECT n, at, key, path, code, reason, item, count FROM rejections
         WHERE project = $1 AND n < $2 AND at >= $3 ORDER BY n DESC LIMIT $4`,
        [toText(project), before, since, limit],
      );
      return rows.map((row) => ({ n: Number(row.n), ...rejectionOf(row) }));
    },
    recordAudit: (row) => insertAudit(postgres, row),
    async audit(before, limit) {
      const { rows } = await postgres.query(
        `SELECT n, at, actor, address, action, subject, details FROM audit_log
         WHERE n < $1 ORDER BY n DESC LIMIT $2`,
        [before, limit],
      );
      return rows.map((row) => ({ n: Number(row.n), ...auditOf(row) }));
    },
    async usedAndRejected(from, to, project) {
      const range = [from, to, project === null ? null : toText(project)];
      const used = await postgres.query(
        `SELECT hour, project, key, sum(events) AS events, sum(bytes) AS bytes FROM all_usage
         WHERE hour >= $1 AND hour < $2 AND ($3::text IS NULL OR project = $3)
         GROUP BY hour, project, key`,
        range,
      );
      const rejected = await postgres.query(
        `SELECT hour, project, key, code, count FROM rejected_hours
         WHERE hour >= $1 AND hour < $2 AND ($3::text IS NULL OR project = $3)`,
        range,
      );
      return { used: used.rows.map(usedOf), rejected: rejected.rows.map(rejectedOf) };
    },
    async ledgerChecks() {
      const { rows } = await postgres.query(
        `SELECT project, key, sum(events) AS events, sum(bytes) AS bytes,
           sum(kept_events) AS kept_events, sum(kept_bytes) AS kept_bytes
         FROM (
           SELECT project, key, events, bytes, 0 AS kept_events, 0 AS kept_bytes FROM all_usage
           UNION ALL SELECT project, key, 0, 0, usage_events, usage_bytes FROM batches) all_rows
         GROUP BY project, key`,
      );
      return rows.map(checkOf);
    },
  };
}

/** Keeps the newest `most`. Nothing of a project that is deleted. */
async function addRejections(
  client: PostgresClient,
  project: string,
  rows: readonly RejectionRow[],
  most: number,
): Promise<void> {
  const column = (name: keyof RejectionRow) => rows.map((row) => escaped(row[name]));
  await client.query(
    `INSERT INTO rejections (project, at, key, path, code, reason, item, count)
     SELECT $1, g.* FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
       $7::text[], $8::bigint[]) AS g
     WHERE NOT EXISTS (SELECT 1 FROM deleted_projects WHERE project = $1)`,
    [toText(project), ...REJECTION_COLUMNS.map(column)],
  );
  await client.query(
    `DELETE FROM rejections WHERE project = $1 AND n <= (
       SELECT n FROM rejections WHERE project = $1 ORDER BY n DESC OFFSET $2 LIMIT 1)`,
    [toText(project), most],
  );
}

/** In one order everywhere, so that two processes do not wait for each other. */
async function addCounts(client: PostgresClient, counts: readonly RejectedRow[]): Promise<void> {
  const column = (name: keyof RejectedRow) => counts.map((row) => escaped(row[name]));
  await client.query(
    `INSERT INTO rejected_hours (hour, project, key, code, count)
     SELECT * FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::bigint[])
       AS g (hour, project, key, code, count)
     ORDER BY hour, project, key, code
     ON CONFLICT (hour, project, key, code) DO UPDATE SET
       count = rejected_hours.count + excluded.count`,
    REJECTED_COLUMNS.map(column),
  );
}

export async function insertAudit(client: PostgresClient, row: AuditRow): Promise<void> {
  await client.query(
    `INSERT INTO audit_log (at, actor, address, action, subject, details)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [row.at, row.actor, row.address, row.action, row.subject, row.details].map(escaped),
  );
}

function escaped(cell: string | number | null): string | number | null {
  return typeof cell === 'string' ? toText(cell) : cell;
}

function textOf(cell: unknown): string {
  return fromText(String(cell));
}

function rejectionOf({ at, key, path, code, reason, item, count }: Row): RejectionRow {
  return {
    at: Number(at),
    key: textOf(key),
    path: textOf(path),
    code: textOf(code),
    reason: textOf(reason),
    item: item === null ? null : textOf(item),
    count: Number(count),
  };
}

function auditOf({ at, actor, address, action, subject, details }: Row): AuditRow {
  return {
    at: Number(at),
    actor: textOf(actor),
    address: address === null ? null : textOf(address),
    action: textOf(action),
    subject: textOf(subject),
    details: textOf(details),
  };
}

function usedOf({ hour, project, key, events, bytes }: Row): UsedRow {
  return {
    hour: Number(hour),
    project: textOf(project),
    key: textOf(key),
    events: Number(events),
    bytes: Number(bytes),
  };
}

function rejectedOf({ hour, project, key, code, count }: Row): RejectedRow {
  return {
    hour: Number(hour),
    project: textOf(project),
    key: textOf(key),
    code: textOf(code),
    count: Number(count),
  };
}

function checkOf({ project, key, events, bytes, kept_events, kept_bytes }: Row): LedgerCheck {
  return {
    project: textOf(project),
    key: textOf(key),
    events: Number(events),
    bytes: Number(bytes),
    keptEvents: Number(kept_events),
    keptBytes: Number(kept_bytes),
  };
}
