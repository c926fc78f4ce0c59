import type { Clock, Logger } from '../../src/component/component.ts';
import { HOUR_MS, windowAt } from '../../src/model/usage-window.ts';
import type { Reservation } from '../../src/tenancy/contract.ts';
import type { LedgerEntry, SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import type { KeyName } from './counter-keys.ts';
import { counterKeys, leaseKeys } from './counter-keys.ts';
import type { RunScript } from './scripts.ts';
import { GIVE_BACK, KEEP, OVERDUE } from './scripts.ts';

/**
 * What becomes of reservations, in the background:
 *
 *   durable, entered with the batch ──────────────────────▶ kept
 *   durable elsewhere ──▶ entered in the ledger ──────────▶ kept
 *   failed, or nobody settled in time ──▶ the ledger decides: has it ─▶ kept; lacks it ─▶ given back
 *
 * A failed append may have been committed all the same. What the ledger says it lacks it never takes any
 * more, so that nothing is given back that counts.
 */
export type Settlements = {
  /** The time at which an admitted reservation counts. */
  expect(batchId: string, countsAt: number): void;
  /** `isEntered`: the ledger's entry was written with the batch. */
  settle(reservation: Reservation, isDurable: boolean, isEntered: boolean): void;
  /** Settles what it can. What is left is decided by others. */
  close(): Promise<void>;
};

export type SettlementOptions = {
  readonly run: RunScript;
  readonly key: KeyName;
  readonly ledger: SharedLedger;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whose overdue reservations are looked at. */
  organizations(): Iterable<string>;
};

/** How long one process has for deciding about what it found overdue. */
const DECIDING_MS = 30_000;
const SWEEP_MS = 5_000;
const FLUSH_MS = 50;
const AGAIN_MS = 1_000;
const MOST_AT_ONCE = 500;

type Undecided = {
  readonly batchId: string;
  readonly organizationId: string;
  readonly projectId: string;
  readonly events: number;
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly countsAt: number;
};

export class SharedSettlements implements Settlements {
  readonly #options: SettlementOptions;
  readonly #countsAt = new Map<string, number>();
  #kept: { organizationId: string; batchId: string }[] = [];
  #undecided: Undecided[] = [];
  #unrecorded: LedgerEntry[] = [];
  #working: Promise<void> = Promise.resolve();
  #isClosed = false;
  #cancelFlush: (() => void) | undefined;
  #cancelSweep: () => void;

  constructor(options: SettlementOptions) {
    this.#options = options;
    this.#cancelSweep = options.clock.after(SWEEP_MS, () => this.#sweep());
  }

  expect(batchId: string, countsAt: number): void {
    this.#countsAt.set(batchId, countsAt);
  }

  settle({ batchId, tenant, usage, at }: Reservation, isDurable: boolean, isEntered: boolean) {
    const { organizationId, projectId } = tenant;
    const countsAt = this.#countsAt.get(batchId) ?? at;
    this.#countsAt.delete(batchId);
    if (!isDurable) {
      this.#undecided.push({ batchId, organizationId, projectId, ...usage, countsAt });
    } else if (isEntered) this.#kept.push({ organizationId, batchId });
    else this.#unrecorded.push({ batchId, tenant, usage, at: countsAt });
    this.#flushLater(FLUSH_MS);
  }

  #flushLater(delay: number): void {
    if (this.#isClosed) return;
    this.#cancelFlush ??= this.#options.clock.after(delay, () => {
      this.#cancelFlush = undefined;
      void this.#flush();
    });
  }

  /** What fails stays on its list for the next time. */
  #flush(): Promise<void> {
    this.#working = this.#working.then(async () => {
      try {
        await this.#record();
        await this.#decideAll();
        await this.#keep();
      } catch (error) {
        this.#options.logger.debug({ error }, 'reservations could not be settled yet');
        this.#flushLater(AGAIN_MS);
      }
    });
    return this.#working;
  }

  async #record(): Promise<void> {
    while (this.#unrecorded.length > 0) {
      const entries = this.#unrecorded.slice(0, MOST_AT_ONCE);
      await this.#options.ledger.record(entries);
      this.#unrecorded = this.#unrecorded.slice(entries.length);
      for (const { batchId, tenant } of entries) {
        this.#kept.push({ organizationId: tenant.organizationId, batchId });
      }
    }
  }

  async #decideAll(): Promise<void> {
    while (this.#undecided.length > 0) {
      const some = this.#undecided.slice(0, MOST_AT_ONCE);
      for (const [organizationId, group] of byOrganization(some)) {
        await this.#decide(organizationId, group);
      }
      this.#undecided = this.#undecided.slice(some.length);
    }
  }

  async #decide(organizationId: string, group: readonly Undecided[]): Promise<void> {
    const { ledger, run, key } = this.#options;
    const ids = group.map(({ batchId }) => batchId);
    const entered = await ledger.decide(organizationId, ids);
    for (const { batchId, projectId, events, bytes, countsAt } of group) {
      if (entered.has(batchId)) {
        this.#kept.push({ organizationId, batchId });
        continue;
      }
      const { leases, reserved, month, hour } = counterKeys(
        key,
        organizationId,
        windowAt(countsAt),
      );
      await run(GIVE_BACK, [leases, reserved, month, hour], [batchId, projectId, events, bytes]);
    }
  }

  async #keep(): Promise<void> {
    const { run, key } = this.#options;
    while (this.#kept.length > 0) {
      const some = this.#kept.slice(0, MOST_AT_ONCE);
      for (const [organizationId, group] of byOrganization(some)) {
        const { leases, reserved } = leaseKeys(key, organizationId);
        const ids = group.map(({ batchId }) => batchId);
        await run(KEEP, [leases, reserved], ids);
      }
      this.#kept = this.#kept.slice(some.length);
    }
  }

  /** Looks for what dead processes left behind. */
  #sweep(): void {
    this.#working = this.#working.then(async () => {
      for (const organizationId of this.#options.organizations()) {
        await this.#decideOverdue(organizationId);
      }
      if (this.#isClosed) return;
      if (this.#kept.length > 0) this.#flushLater(FLUSH_MS);
      this.#cancelSweep = this.#options.clock.after(SWEEP_MS, () => this.#sweep());
    });
  }

  async #decideOverdue(organizationId: string): Promise<void> {
    const { run, key, logger } = this.#options;
    try {
      const { leases, reserved } = leaseKeys(key, organizationId);
      const found = await run(OVERDUE, [leases, reserved], [MOST_AT_ONCE, DECIDING_MS]);
      const overdue = overdueOf(organizationId, found as string[]);
      if (overdue.length > 0) await this.#decide(organizationId, overdue);
    } catch (error) {
      logger.debug({ error }, 'overdue reservations could not be looked at');
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelSweep();
    this.#cancelFlush?.();
    await this.#flush();
  }
}

function byOrganization<T extends { readonly organizationId: string }>(
  items: readonly T[],
): Map<string, T[]> {
  return Map.groupBy(items, ({ organizationId }) => organizationId);
}

/** The script's answer: batch id and `project month hour events bytes` in turn. */
function overdueOf(organizationId: string, found: readonly string[]): Undecided[] {
  const overdue: Undecided[] = [];
  for (let i = 0; i < found.length; i += 2) {
    const [projectId = '', , hour, events, bytes] = (found[i + 1] ?? '').split(' ');
    overdue.push({
      batchId: found[i] ?? '',
      organizationId,
      projectId,
      events: Number(events ?? 0),
      bytes: Number(bytes ?? 0),
      countsAt: Number(hour ?? 0) * HOUR_MS,
    });
  }
  return overdue;
}
