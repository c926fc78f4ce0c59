import type { Clock, Logger } from '../../src/component/component.ts';
import { HOUR_MS, windowAt } from '../../src/model/usage-window.ts';
import type { Reservation } from '../../src/tenancy/contract.ts';
import type { LedgerEntry, SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import type { KeyName, RunScript } from './scripts.ts';
import { CANCEL, CONFIRM, counterKeys, leaseKeys, OVERDUE, RECOUNT } from './scripts.ts';

type SettlementOptions = {
  readonly run: RunScript;
  readonly key: KeyName;
  readonly ledger: SharedLedger;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The organizations whose overdue reservations this process decides. */
  organizations(): Iterable<string>;
  /** Finds the counters of an organization in Redis, or rebuilds them from the ledger. Rejects with `RetryableError`. */
  renew(organizationId: string): Promise<number>;
};

/** How long an overdue reservation belongs to the process that found it. */
const CLAIM_MS = 30_000;
/**
 * How long a batch that was counted again keeps its reservation. This process confirms it at once, or repeats the call when Redis answers
 * again: if another replica had ended the reservation until then, the batch would be counted twice. No reservation lasts longer.
 */
const RECOUNTED_MS = 3_600_000;
const SWEEP_MS = 5_000;
const FLUSH_MS = 50;
const RETRY_MS = 1_000;
const MAX_PER_CALL = 500;
/** The reservations that may wait for a ledger that cannot be reached. They take memory here and in Redis. */
export const MAX_UNSETTLED = 10_000;

type Undecided = {
  readonly batchId: string;
  readonly organizationId: string;
  readonly projectId: string;
  readonly events: number;
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly countsAt: number;
};

/** When an admitted reservation counts, and the epoch of the counters that have it. */
type Expected = { readonly at: number; readonly epoch?: number | undefined };

/** An entry, and the epoch of the counters that have or that lack its usage. */
type Unrecorded = LedgerEntry & Pick<Expected, 'epoch'>;

/**
 * Settles reservations in the background:
 *
 *   durable, entered with the batch ──────────────────────▶ confirmed
 *   durable in another storage ──▶ entered in the ledger ─▶ counted again if its counters were lost before ─▶ confirmed
 *   failed, or overdue ──▶ the ledger decides: holds the batch ─▶ confirmed; lacks it ─▶ cancelled
 *
 * A failed append may have been committed. The ledger rejects a later entry of a batch that it reported as lacking, so
 * that no counted batch is cancelled.
 */
export class Settlements {
  readonly #options: SettlementOptions;
  readonly #expected = new Map<string, Expected>();
  #durable: { organizationId: string; batchId: string }[] = [];
  #undecided: Undecided[] = [];
  #unrecorded: Unrecorded[] = [];
  #uncounted: Unrecorded[] = [];
  #working: Promise<void> = Promise.resolve();
  #isClosed = false;
  #cancelFlush: (() => void) | undefined;
  #cancelSweep: () => void;

  constructor(options: SettlementOptions) {
    this.#options = options;
    this.#cancelSweep = options.clock.after(SWEEP_MS, () => this.#sweep());
  }

  /** Keeps when, and in which epoch, an admitted reservation counts. */
  expect(batchId: string, { at, epoch }: Expected): void {
    this.#expected.set(batchId, { at, epoch });
  }

  /** No further reservation may be made. */
  get isFull(): boolean {
    const waiting = this.#undecided.length + this.#unrecorded.length + this.#uncounted.length;
    return waiting >= MAX_UNSETTLED;
  }

  /** `isEntered`: the ledger entry was written with the batch. */
  settle({ batchId, tenant, usage, at }: Reservation, isDurable: boolean, isEntered: boolean) {
    const { organizationId, projectId } = tenant;
    const { at: countsAt, epoch } = this.#expected.get(batchId) ?? { at };
    this.#expected.delete(batchId);
    if (!isDurable) {
      this.#undecided.push({ batchId, organizationId, projectId, ...usage, countsAt });
    } else if (isEntered) this.#durable.push({ organizationId, batchId });
    else this.#unrecorded.push({ batchId, tenant, usage, at: countsAt, epoch });
    this.#flushLater(FLUSH_MS);
  }

  #flushLater(delay: number): void {
    if (this.#isClosed) return;
    this.#cancelFlush ??= this.#options.clock.after(delay, () => {
      this.#cancelFlush = undefined;
      void this.#flush();
    });
  }

  /** A reservation leaves its list only after success, so that the next flush retries it. */
  #flush(): Promise<void> {
    this.#working = this.#working.then(async () => {
      try {
        await this.#record();
        await this.#recount();
        await this.#decideAll();
        await this.#confirm();
      } catch (error) {
        this.#options.logger.debug({ err: error }, 'Reservations could not be settled; retried');
        this.#flushLater(RETRY_MS);
      }
    });
    return this.#working;
  }

  async #record(): Promise<void> {
    while (this.#unrecorded.length > 0) {
      const entries = this.#unrecorded.slice(0, MAX_PER_CALL);
      const lacking = await this.#options.ledger.record(entries);
      this.#unrecorded = this.#unrecorded.slice(entries.length);
      for (const entry of entries) {
        const { batchId, tenant, epoch: reservedIn } = entry;
        const epoch = lacking.get(batchId);
        if (epoch !== undefined && reservedIn !== undefined && reservedIn < epoch) {
          this.#uncounted.push({ ...entry, epoch });
        } else this.#durable.push({ organizationId: tenant.organizationId, batchId });
      }
    }
  }

  /**
   * Batches whose counters are not installed yet wait for the next flush. The counters of an organization without traffic are installed here:
   * no request does it.
   */
  async #recount(): Promise<void> {
    const waiting: Unrecorded[] = [];
    try {
      for (let next = this.#uncounted[0]; next !== undefined; next = this.#uncounted[0]) {
        const isCounted = await this.#recountOne(next);
        this.#uncounted.shift();
        const { batchId, tenant } = next;
        if (isCounted) this.#durable.push({ organizationId: tenant.organizationId, batchId });
        else waiting.push(next);
      }
    } finally {
      this.#uncounted.push(...waiting);
    }
    if (waiting.length === 0) return;
    this.#flushLater(RETRY_MS);
    for (const id of new Set(waiting.map(({ tenant }) => tenant.organizationId))) {
      await this.#options.renew(id).catch((error: unknown) => {
        // The batches of other organizations do not wait for it.
        this.#options.logger.debug({ err: error }, 'Counters could not be renewed; retried');
      });
    }
  }

  async #recountOne({ batchId, tenant, usage, at, epoch = 0 }: Unrecorded): Promise<boolean> {
    const { run, key } = this.#options;
    const window = windowAt(at);
    const { organizationId, projectId } = tenant;
    const { state, month, hour, leases, reserved } = counterKeys(key, organizationId, window);
    const answer = await run(
      RECOUNT,
      [state, month, hour, leases, reserved],
      [
        epoch,
        batchId,
        projectId,
        window.month,
        window.hour,
        usage.events,
        usage.bytes,
        RECOUNTED_MS,
      ],
    );
    return answer === 'counted';
  }

  async #decideAll(): Promise<void> {
    while (this.#undecided.length > 0) {
      const some = this.#undecided.slice(0, MAX_PER_CALL);
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
        this.#durable.push({ organizationId, batchId });
        continue;
      }
      const { leases, reserved, month, hour } = counterKeys(
        key,
        organizationId,
        windowAt(countsAt),
      );
      await run(CANCEL, [leases, reserved, month, hour], [batchId, projectId, events, bytes]);
    }
  }

  async #confirm(): Promise<void> {
    const { run, key } = this.#options;
    while (this.#durable.length > 0) {
      const some = this.#durable.slice(0, MAX_PER_CALL);
      for (const [organizationId, group] of byOrganization(some)) {
        const { leases, reserved } = leaseKeys(key, organizationId);
        const ids = group.map(({ batchId }) => batchId);
        await run(CONFIRM, [leases, reserved], ids);
      }
      this.#durable = this.#durable.slice(some.length);
    }
  }

  /** Decides the reservations of dead processes. */
  #sweep(): void {
    this.#working = this.#working.then(async () => {
      for (const organizationId of this.#options.organizations()) {
        await this.#decideOverdue(organizationId);
      }
      if (this.#isClosed) return;
      if (this.#durable.length > 0) this.#flushLater(FLUSH_MS);
      this.#cancelSweep = this.#options.clock.after(SWEEP_MS, () => this.#sweep());
    });
  }

  async #decideOverdue(organizationId: string): Promise<void> {
    const { run, key, logger } = this.#options;
    try {
      const { leases, reserved } = leaseKeys(key, organizationId);
      const found = await run(OVERDUE, [leases, reserved], [MAX_PER_CALL, CLAIM_MS, RECOUNTED_MS]);
      const overdue = overdueOf(organizationId, found as string[]);
      if (overdue.length > 0) await this.#decide(organizationId, overdue);
    } catch (error) {
      logger.debug({ err: error }, 'Overdue reservations could not be decided; retried');
    }
  }

  /** Settles as many reservations as it can; other replicas decide the rest when they are overdue. */
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

/** Parses the answer of `OVERDUE`: batch ids alternate with `project month hour events bytes`. */
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
