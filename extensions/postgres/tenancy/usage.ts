import type { Clock } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { HOUR_MS, monthStart } from '../../../src/model/usage-window.ts';
import type { LedgerEntry } from '../../../src/tenancy/shared-ledger.ts';
import { DATABASE_NOW } from '../connection/database-clock.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row } from '../connection/statement.ts';

/** A ledger entry further in the future than this comes from a wrong clock and is ignored. */
const TRUSTED_HOURS_AHEAD = 1;

/**
 * The hour of an entry. Its clock may be wrong: usage in an hour after the next one of the database counts in the present one, as
 * that of reservations does.
 */
export const TRUSTED_HOUR = `CASE WHEN hour > ${DATABASE_NOW} / ${HOUR_MS} + ${TRUSTED_HOURS_AHEAD}
  THEN ${DATABASE_NOW} / ${HOUR_MS} ELSE hour END`;

/**
 * The rest of a statement whose `entered` has the rows that it enters into the ledger: ends their reservations. Usage without a
 * reservation makes the windows of its month incomplete: they are dropped, and summed up again with the next reservation. They are locked in
 * the order of `reserve_usage`: that of the organization, whose project is empty, before those of its projects.
 */
export const END_RESERVATIONS = `
  reserved AS (
    DELETE FROM usage_reservations WHERE batch_id IN (SELECT batch_id FROM entered) RETURNING batch_id
  ),
  incomplete AS MATERIALIZED (
    SELECT organization, project FROM usage_windows w WHERE EXISTS (
      SELECT 1 FROM entered e WHERE e.organization = w.organization AND e.hour >= w.month
        AND e.batch_id NOT IN (SELECT batch_id FROM reserved))
    ORDER BY organization, project FOR UPDATE
  ),
  forgotten AS (
    DELETE FROM usage_windows WHERE (organization, project) IN (SELECT organization, project FROM incomplete)
  )
  SELECT batch_id FROM entered`;

/**
 * Enters usage of batches that are durable already, even if their reservation was given back. The transaction shares the accept
 * lock, so that windows that are being rebuilt have the usage or are dropped.
 */
export async function recordUsage(
  client: PostgresClient,
  entries: readonly LedgerEntry[],
): Promise<void> {
  const counted = entries.filter(({ usage }) => usage.events > 0 || usage.bytes > 0);
  await client.query(
    `WITH entered AS (
       INSERT INTO usage_ledger AS l (batch_id, organization, project, key, hour, events, bytes)
       SELECT batch_id, organization, project, key, ${TRUSTED_HOUR}, events, bytes FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[],
         $6::bigint[], $7::bigint[]) AS g (batch_id, organization, project, key, hour, events, bytes)
       ORDER BY batch_id
       ON CONFLICT (batch_id) DO UPDATE SET
         organization = excluded.organization, project = excluded.project, key = excluded.key,
         hour = excluded.hour, events = excluded.events, bytes = excluded.bytes
       WHERE l.organization IS NULL
       RETURNING batch_id, organization, hour
     ),
     ${END_RESERVATIONS}`,
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

/**
 * The time that usage counts at, in milliseconds since the epoch: `at`, or the time of the database if that is earlier, but
 * not before the newest hour in the ledger, so that a clock that goes back does not open an earlier window again. `ledger`
 * is `usage_hours` if that has everything.
 */
export async function newestTime(
  client: PostgresClient,
  organizationId: string,
  at: number,
  ledger: 'all_usage' | 'usage_hours' = 'all_usage',
): Promise<number> {
  const found = await row<{ at: number; hour: number | null }>(
    client,
    `SELECT at, (SELECT max(hour) FROM ${ledger} WHERE organization = $1 AND hour <= at / ${HOUR_MS} + ${TRUSTED_HOURS_AHEAD}) AS hour
     FROM (SELECT least($2::bigint, ${DATABASE_NOW}) AS at) AS present`,
    [organizationId, Math.floor(at)],
  );
  return found === undefined ? at : Math.max(found.at, (found.hour ?? 0) * HOUR_MS);
}

/** The first hour of the month of a time, and that of the next month. */
export function hoursOfMonth(at: number): [from: number, to: number] {
  return [monthStart(at) / HOUR_MS, monthStart(at, 1) / HOUR_MS];
}

/** The time that usage of a batch counts at. */
export type UsageTime = (batch: SealedBatch) => number;

/** Times for batches that no counters reserved usage for. */
export type UsageTimes = {
  /** Reads the newest hour of organizations that this process has not seen yet. */
  load(batches: readonly SealedBatch[]): Promise<void>;
  readonly of: UsageTime;
};

/** A batch counts when it was received, but not before the newest hour that this process knows of. */
export function usageTimes(client: PostgresClient, clock: Clock): UsageTimes {
  /** Milliseconds since the epoch, by organization. */
  const newest = new Map<string, number>();
  return {
    async load(batches) {
      for (const { usage, tenant } of batches) {
        const { organizationId } = tenant;
        if (usage.at !== undefined || newest.has(organizationId)) continue;
        newest.set(organizationId, await newestTime(client, organizationId, clock.now()));
      }
    },
    of({ usage, receivedAt, tenant }) {
      if (usage.at !== undefined) return usage.at;
      const known = newest.get(tenant.organizationId) ?? receivedAt;
      const hour = Math.floor(Math.max(known, receivedAt) / HOUR_MS) * HOUR_MS;
      newest.set(tenant.organizationId, hour);
      return Math.max(receivedAt, hour);
    },
  };
}
