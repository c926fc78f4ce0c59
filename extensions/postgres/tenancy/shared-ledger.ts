import type { Clock } from '../../../src/component/component.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import type { SharedLedger } from '../../../src/tenancy/shared-ledger.ts';
import { SHARE_ACCEPT_LOCK } from '../batches/accept-lock.ts';
import type { PostgresPools } from '../connection/pools.ts';
import { row, rows } from '../connection/statement.ts';
import { rebuilding } from './rebuilding.ts';
import { hoursOfMonth, newestTime, recordUsage } from './usage.ts';

/** The usage ledger, for counters that are in Redis. */
export function sharedLedger(
  { accept, write, ...pools }: PostgresPools,
  clock: Clock,
): SharedLedger {
  const rebuild = rebuilding(pools.rebuild);
  return {
    async newestEpoch(organizationId) {
      const organization = await row<{ epoch: number }>(
        accept,
        'SELECT epoch FROM organizations WHERE id = $1',
        [organizationId],
      );
      return organization?.epoch ?? 0;
    },
    beginEpoch: (organizationId, at, newest) =>
      rebuild(async (client) => {
        const begun = await row<{ epoch: number }>(
          client,
          'UPDATE organizations SET epoch = epoch + 1 WHERE id = $1 AND epoch = $2 RETURNING epoch',
          [organizationId, newest],
        );
        if (begun === undefined) return undefined;
        const countsAt = await newestTime(client, organizationId, at, 'usage_hours');
        const sums = await rows<{ project: string; events: number; bytes: number }>(
          client,
          `SELECT project, coalesce(sum(events), 0)::bigint AS events,
             coalesce(sum(bytes) FILTER (WHERE hour = $4), 0)::bigint AS bytes
           FROM usage_hours WHERE organization = $1 AND hour >= $2 AND hour < $3 GROUP BY project`,
          [organizationId, ...hoursOfMonth(countsAt), Math.floor(countsAt / HOUR_MS)],
        );
        return {
          epoch: begun.epoch,
          at: countsAt,
          projects: sums.map(({ project, events, bytes }) => ({
            projectId: project,
            events,
            bytes,
          })),
        };
      }),
    decide: (organizationId, batchIds) =>
      write.transaction(async (client) => {
        // Waits for a transaction in flight that enters one of the batches.
        await client.query(
          `INSERT INTO usage_ledger (batch_id, hour, events, bytes)
           SELECT id, $2, 0, 0 FROM unnest($1::text[]) AS g (id) ORDER BY id ON CONFLICT DO NOTHING`,
          [batchIds, Math.floor(clock.now() / HOUR_MS)],
        );
        const entered = await rows<{ batch_id: string }>(
          client,
          'SELECT batch_id FROM usage_ledger WHERE batch_id = ANY ($1) AND organization = $2',
          [batchIds, organizationId],
        );
        return new Set(entered.map(({ batch_id }) => batch_id));
      }),
    record: (entries) =>
      write.transaction(async (client) => {
        await client.query(...SHARE_ACCEPT_LOCK);
        await recordUsage(client, entries);
        // The beginning of an epoch empties the entries that it sums up.
        const lacking = await rows<{ batch_id: string; epoch: number }>(
          client,
          `SELECT batch_id, epoch FROM usage_ledger JOIN organizations ON organization = id
           WHERE batch_id = ANY ($1) AND (events > 0 OR bytes > 0)`,
          [entries.map(({ batchId }) => batchId)],
        );
        return new Map(lacking.map(({ batch_id, epoch }) => [batch_id, epoch]));
      }),
  };
}
