import { RetryableError } from '../../src/model/errors.ts';
import { monthStart } from '../../src/model/usage-window.ts';
import type { Reservation } from '../../src/tenancy/contract.ts';
import type { LedgerEntry, SharedLedger } from '../../src/tenancy/shared-ledger.ts';

/** A ledger in memory, as simple as the contract allows. */
export type MemoryLedger = SharedLedger & {
  readonly entries: ReadonlyMap<string, LedgerEntry>;
  readonly epoch: number;
  /** Enters a batch as an accepting transaction does; false if the ledger refuses it. */
  enter(reservation: Reservation, at: number, epoch: number): boolean;
  isAway: boolean;
};

const HOUR = 3_600_000;

export function memoryLedger(): MemoryLedger {
  const entries = new Map<string, LedgerEntry>();
  const voided = new Set<string>();
  const summed = new Set<string>();
  let epoch = 0;
  const ledger = {
    isAway: false,
    entries,
    get epoch() {
      return epoch;
    },
    enter({ batchId, tenant, usage }: Reservation, at: number, reservedIn: number) {
      if (reservedIn !== epoch || voided.has(batchId)) return false;
      entries.set(batchId, { batchId, tenant, usage, at });
      return true;
    },
    async newestEpoch() {
      check();
      return epoch;
    },
    async beginEpoch(organizationId: string, at: number, newest: number) {
      check();
      if (epoch !== newest) return undefined;
      epoch++;
      const sums = new Map<string, { events: number; bytes: number }>();
      for (const { batchId, tenant, usage, at: countsAt } of entries.values()) {
        summed.add(batchId);
        if (tenant.organizationId !== organizationId) continue;
        const sum = sums.get(tenant.projectId) ?? { events: 0, bytes: 0 };
        if (monthStart(countsAt) === monthStart(at)) sum.events += usage.events;
        if (Math.floor(countsAt / HOUR) === Math.floor(at / HOUR)) sum.bytes += usage.bytes;
        sums.set(tenant.projectId, sum);
      }
      return { epoch, at, projects: [...sums].map(([projectId, sum]) => ({ projectId, ...sum })) };
    },
    async decide(_organizationId: string, batchIds: readonly string[]) {
      check();
      const found = batchIds.filter((id) => entries.has(id));
      for (const id of batchIds) if (!entries.has(id)) voided.add(id);
      return new Set(found);
    },
    async record(more: readonly LedgerEntry[]) {
      check();
      for (const entry of more) if (!entries.has(entry.batchId)) entries.set(entry.batchId, entry);
      const lacking = more.filter(({ batchId }) => !summed.has(batchId));
      return new Map(lacking.map(({ batchId }) => [batchId, epoch]));
    },
  };

  function check(): void {
    if (ledger.isAway) throw new RetryableError('storage_failed', 'away');
  }
  return ledger;
}
