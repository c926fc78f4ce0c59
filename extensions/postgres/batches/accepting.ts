import type { SealedBatch } from '../../../src/model/batch.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import type { UsageTime } from '../tenancy/usage.ts';
import { END_RESERVATIONS, recordUsage, TRUSTED_HOUR } from '../tenancy/usage.ts';
import { insertBatches } from './batches.ts';

/** Enters usage and ends its reservation. $8: the epoch it was reserved in, null without. */
const ENTER_USAGE = `
  WITH entered AS (
    INSERT INTO usage_ledger (batch_id, organization, project, key, hour, events, bytes)
    SELECT batch_id, organization, project, key, ${TRUSTED_HOUR}, events, bytes
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::bigint[],
      $7::bigint[], $8::bigint[]) AS g (batch_id, organization, project, key, hour, events, bytes, epoch)
    WHERE epoch IS NULL OR epoch = (SELECT epoch FROM organizations)
    ORDER BY batch_id
    ON CONFLICT DO NOTHING
    RETURNING batch_id, organization, hour
  ),
  ${END_RESERVATIONS}`;

/** See `StoreDatabase`. A batch is refused if its reservation was lost with its counters, or given back. */
export async function acceptBatches(
  client: PostgresClient,
  batches: readonly SealedBatch[],
  usageTime: UsageTime,
): Promise<ReadonlySet<string>> {
  const isNew = await insertBatches(client, batches);
  const counted = batches.filter(
    ({ id, usage }) => isNew.has(id) && (usage.events > 0 || usage.bytes > 0),
  );
  if (counted.length === 0) return new Set();
  const found = await rows<{ batch_id: string }>(client, ENTER_USAGE, [
    counted.map(({ id }) => id),
    counted.map(({ tenant }) => tenant.organizationId),
    counted.map(({ tenant }) => tenant.projectId),
    counted.map(({ tenant }) => tenant.keyId),
    counted.map((batch) => Math.floor(usageTime(batch) / HOUR_MS)),
    counted.map(({ usage }) => usage.events),
    counted.map(({ usage }) => usage.bytes),
    counted.map(({ usage }) => usage.epoch ?? null),
  ]);
  if (found.length === counted.length) return new Set();
  const entered = new Set(found.map(({ batch_id }) => batch_id));
  const missing = counted.filter(({ id }) => !entered.has(id)).map(({ id }) => id);
  return refuse(client, missing);
}

/** Removes the batches whose usage no transaction has entered, and resolves with their ids. */
async function refuse(
  client: PostgresClient,
  missing: readonly string[],
): Promise<ReadonlySet<string>> {
  const refused = await rows<{ id: string }>(
    client,
    `WITH refused AS (
       SELECT id FROM unnest($1::text[]) AS g (id)
       WHERE NOT EXISTS (
         SELECT 1 FROM usage_ledger l WHERE l.batch_id = g.id AND l.organization IS NOT NULL)
     ), removed AS (DELETE FROM batches WHERE id IN (SELECT id FROM refused))
     SELECT id FROM refused`,
    [missing],
  );
  return new Set(refused.map(({ id }) => id));
}

/** See `StoreDatabase`. */
export async function storeDelivered(
  client: PostgresClient,
  batches: readonly SealedBatch[],
  usageTime: UsageTime,
): Promise<void> {
  const isNew = await insertBatches(client, batches);
  const entries = batches
    .filter(({ id }) => isNew.has(id))
    .map((batch) => {
      const { id: batchId, tenant, usage } = batch;
      return { batchId, tenant, usage, at: usageTime(batch) };
    });
  if (entries.length > 0) await recordUsage(client, entries);
}
