import type { Clock } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { newestTime } from './usage-entries.ts';

/**
 * When batches count that no counters were asked for: as they were received, but not before the newest hour
 * that this process knows of, because a clock that goes back does not open a window again.
 */
export function usageTimes(client: PostgresClient, clock: Clock) {
  /** Milliseconds since the epoch, by organization. */
  const newest = new Map<string, number>();

  return {
    /** Reads what is not known yet. */
    async load(batches: readonly SealedBatch[]): Promise<void> {
      for (const { usage, tenant } of batches) {
        const { organizationId } = tenant;
        if (usage.at !== undefined || newest.has(organizationId)) continue;
        newest.set(organizationId, await newestTime(client, organizationId, clock.now()));
      }
    },
    of({ usage, receivedAt, tenant }: SealedBatch): number {
      if (usage.at !== undefined) return usage.at;
      const known = newest.get(tenant.organizationId) ?? receivedAt;
      const hour = Math.floor(Math.max(known, receivedAt) / HOUR_MS) * HOUR_MS;
      newest.set(tenant.organizationId, hour);
      return Math.max(receivedAt, hour);
    },
  };
}
