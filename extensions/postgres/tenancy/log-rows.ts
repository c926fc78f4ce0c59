import type {
  AuditRow,
  Numbered,
  RejectedRow,
  RejectionRow,
  TenancyRows,
  UsedRow,
} from '../../../src/tenancy/rows.ts';
import type { PostgresPools } from '../connection/pools.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import { toStored, toStoredText, withText } from './stored-text.ts';
import { ledgerChecks } from './verify.ts';

type LogRows = Pick<
  TenancyRows,
  'recordRejections' | 'rejections' | 'recordAudit' | 'audit' | 'usedAndRejected' | 'ledgerChecks'
>;

const REJECTION_COLUMNS = [
  ...(['at', 'key', 'path', 'code', 'reason', 'item', 'count', 'client'] as const),
];
const REJECTED_COLUMNS = ['hour', 'project', 'key', 'code', 'count'] as const;
const AUDIT_COLUMNS = ['at', 'actor', 'address', 'action', 'subject', 'details'] as const;

/** The log of rejections, the audit log, and the history of usage. */
export function logRows({ write, read, verify }: PostgresPools): LogRows {
  return {
    recordRejections: (projects, counts, most) =>
      write.transaction(async (client) => {
        for (const { project, rows } of projects) await addRejections(client, project, rows, most);
        await addCounts(client, counts);
      }),
    async rejections(project, before, since, limit) {
      const found = await rows<Numbered<RejectionRow>>(
        read,
        `SELECT n, ${REJECTION_COLUMNS.join(', ')} FROM rejections
         WHERE project = $1 AND n < $2 AND at >= $3 ORDER BY n DESC LIMIT $4`,
        [toStoredText(project), before, since, limit],
      );
      return found.map(withText);
    },
    recordAudit: (row) => insertAudit(write, row),
    async audit(before, limit, [from, to, action, actor, project]) {
      const texts = [action, actor, project].map((text) => text && toStoredText(text));
      const found = await rows<Numbered<AuditRow>>(
        read,
        `SELECT n, ${AUDIT_COLUMNS.join(', ')} FROM audit_log
         WHERE n < $1 AND at >= $3 AND at < $4
           AND ($5::text IS NULL OR action = $5) AND ($6::text IS NULL OR actor = $6)
           AND ($7::text IS NULL OR subject = $7
             OR EXISTS (SELECT 1 FROM unnest($8::text[]) AS g (named) WHERE strpos(details, named) > 0))
         ORDER BY n DESC LIMIT $2`,
        [before, limit, from, to, ...texts, project === null ? [] : namingProject(project)],
      );
      return found.map(withText);
    },
    async usedAndRejected(from, to, periodHours, project) {
      const range = [from, to, periodHours, project === null ? null : toStoredText(project)];
      const used = await rows<UsedRow>(
        read,
        `SELECT hour - hour % $3::integer AS hour, project, key, sum(events)::bigint AS events,
           sum(bytes)::bigint AS bytes
         FROM all_usage
         WHERE hour >= $1 AND hour < $2 AND ($4::text IS NULL OR project = $4)
         GROUP BY 1, project, key`,
        range,
      );
      const rejected = await rows<RejectedRow>(
        read,
        `SELECT hour - hour % $3::integer AS hour, project, key, code, sum(count)::bigint AS count
         FROM rejected_hours
         WHERE hour >= $1 AND hour < $2 AND ($4::text IS NULL OR project = $4)
         GROUP BY 1, project, key, code`,
        range,
      );
      return { used: used.map(withText), rejected: rejected.map(withText) };
    },
    ledgerChecks: (progress) => ledgerChecks(verify, progress),
  };
}

/** The parts of stored details that name a project. Details with a backslash are stored escaped. */
function namingProject(id: string): string[] {
  const parts = ['project_id', 'project'].map((name) => `"${name}":${JSON.stringify(id)}`);
  return parts.flatMap((part) => [part, JSON.stringify(part).slice(1, -1)]);
}

/** Keeps the newest `most` entries. A deleted project gets none. */
async function addRejections(
  client: PostgresClient,
  project: string,
  entries: readonly RejectionRow[],
  most: number,
): Promise<void> {
  const column = (name: keyof RejectionRow) => entries.map((entry) => toStored(entry[name]));
  await client.query(
    `INSERT INTO rejections (project, ${REJECTION_COLUMNS.join(', ')})
     SELECT $1, g.* FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
       $7::text[], $8::bigint[], $9::text[]) AS g
     WHERE NOT EXISTS (SELECT 1 FROM deleted_projects WHERE project = $1)`,
    [toStoredText(project), ...REJECTION_COLUMNS.map(column)],
  );
  await client.query(
    `DELETE FROM rejections WHERE project = $1 AND n <= (
       SELECT n FROM rejections WHERE project = $1 ORDER BY n DESC OFFSET $2 LIMIT 1)`,
    [toStoredText(project), most],
  );
}

/** In one order for all transactions, so that two processes never deadlock. */
async function addCounts(client: PostgresClient, counts: readonly RejectedRow[]): Promise<void> {
  const column = (name: keyof RejectedRow) => counts.map((row) => toStored(row[name]));
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
    `INSERT INTO audit_log (${AUDIT_COLUMNS.join(', ')}) VALUES ($1, $2, $3, $4, $5, $6)`,
    AUDIT_COLUMNS.map((name) => toStored(row[name])),
  );
}
