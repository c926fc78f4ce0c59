import type { Clock } from '../../../src/component/component.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import type { SharedLedger } from '../../../src/tenancy/shared-ledger.ts';
import { stopAccepting } from '../batches/accept-lock.ts';
import type { Postgres } from '../connection/pool.ts';
import { hoursOfMonth, newestTime, recordUsage } from './usage-entries.ts';

/** The ledger for counters in Redis. */
export function sharedLedger(postgres: Postgres, clock: Clock): SharedLedger {
  return {
    async newestEpoch(organizationId) {
      const { rows } = await postgres.query('SELECT epoch FROM organizations WHERE id = $1', [
        organizationId,
      ]);
      return Number(rows[0]?.epoch ?? 0);
    },
    beginEpoch: (organizationId, at, newest) =>
      postgres.transaction(async (client) => {
        await stopAccepting(client);
        const begun = await client.query(
          'UPDATE organizations SET epoch = epoch + 1 WHERE id = $1 AND epoch = $2 RETURNING epoch',
          [organizationId, newest],
        );
        if (begun.rows.length === 0) return undefined;
        const countsAt = await newestTime(client, organizationId, at);
        const { rows } = await client.query(
          `SELECT project, coalesce(sum(events), 0) AS events,
             coalesce(sum(bytes) FILTER (WHERE hour = $4), 0) AS bytes
           FROM all_usage WHERE organization = $1 AND hour >= $2 AND hour < $3 GROUP BY project`,
          [organizationId, ...hoursOfMonth(countsAt), Math.floor(countsAt / HOUR_MS)],
        );
        return {
          epoch: Number(begun.rows[0]?.epoch),
          at: countsAt,
          projects: rows.map(({ project, events, bytes }) => ({
            projectId: String(project),
            events: Number(events),
            bytes: Number(bytes),
          })),
        };
      }),
    decide: (organizationId, batchIds) =>
      postgres.transaction(async (client) => {
        // A transaction under way that enters one of them is waited for.
        await client.query(
          `INSERT INTO usage_ledger (batch_id, hour, events, bytes)
           SELECT id, $2, 0, 0 FROM unnest($1::text[]) AS g (id) ORDER BY id ON CONFLICT DO NOTHING`,
          [batchIds, Math.floor(clock.now() / HOUR_MS)],
        );
        const { rows } = await client.query(
          'SELECT batch_id FROM usage_ledger WHERE batch_id = ANY ($1) AND organization = $2',
          [batchIds, organizationId],
        );
        return new Set(rows.map(({ batch_id }) => String(batch_id)));
      }),
    record: (entries) => recordUsage(postgres, entries),
  };
}
