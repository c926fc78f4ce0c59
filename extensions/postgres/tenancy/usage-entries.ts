import { HOUR_MS, monthStart } from '../../../src/model/usage-window.ts';
import type { LedgerEntry } from '../../../src/tenancy/shared-ledger.ts';
import type { PostgresClient } from '../connection/statement.ts';

/** A clock that ran ahead by more than this is not believed. */
const TRUSTED_HOURS_AHEAD = 1;

/** Enters what was made durable elsewhere, even what was given back meanwhile: it is there, so it counts. */
export async function recordUsage(
  client: PostgresClient,
  entries: readonly LedgerEntry[],
): Promise<void> {
  const counted = entries.filter(({ usage }) => usage.events > 0 || usage.bytes > 0);
  await client.query(
    `INSERT INTO usage_ledger AS l (batch_id, organization, project, key, hour, events, bytes)
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[],
       $6::bigint[], $7::bigint[]) AS g (batch_id, organization, project, key, hour, events, bytes)
     ORDER BY batch_id
     ON CONFLICT (batch_id) DO UPDATE SET
       organization = excluded.organization, project = excluded.project, key = excluded.key,
       hour = excluded.hour, events = excluded.events, bytes = excluded.bytes
     WHERE l.organization IS NULL`,
    [
      counted.map(({ batchId }) => batchId),
      counted.map(({ tenant }) => tenant.organizationId),
      counted.map(({ tenant }) => tenant.projectId),
      counted.map(({ tenant }) => tenant.keyId),
      counted.map(({ at }) => Math.floor(at / HOUR_MS)),
      counted.map(({ usage }) => usage.events),
      counted.map(({ usage }) => usage.bytes),
    ],
  );
}

/** A clock that goes back does not open a window again: the newest hour in the ledger is in force. */
export async function newestTime(
  client: PostgresClient,
  organizationId: string,
  at: number,
): Promise<number> {
  const { rows } = await client.query(
    'SELECT max(hour) AS hour FROM all_usage WHERE organization = $1 AND hour <= $2',
    [organizationId, Math.floor(at / HOUR_MS) + TRUSTED_HOURS_AHEAD],
  );
  const newest = rows[0]?.hour;
  return newest === null || newest === undefined ? at : Math.max(at, Number(newest) * HOUR_MS);
}

/** The first hour of the month of a time, and that of the next month. */
export function hoursOfMonth(at: number): [from: number, to: number] {
  return [monthStart(at) / HOUR_MS, monthStart(at, 1) / HOUR_MS];
}
