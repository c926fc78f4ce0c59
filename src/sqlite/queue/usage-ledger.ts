import type { Clock, Logger } from '../../component/component.ts';
import type { SealedBatch } from '../../model/batch.ts';
import { HOUR_MS, monthStart, windowAt } from '../../model/usage-window.ts';
import type {
  ProjectLimits,
  QuotaLimits,
  QuotaVerdict,
  Reservation,
  UsageCounters,
  UsageInForce,
} from '../../tenancy/contract.ts';
import type { Database } from '../database.ts';
import type { LedgerRow, UsageSum } from './usage-operations.ts';

/** A clock that ran ahead by more than this is not believed after a restart. */
const TRUSTED_HOURS_AHEAD = 1;
/** Ledger entries of batches that are kept elsewhere are written together within this time. */
const FLUSH_MS = 200;

/** What one organization or project used in the newest month and hour that were seen. */
type Windows = { month: number; events: number; hour: number; bytes: number };

/** A batch that is on its way: counted, and not settled. */
type UnderWay = {
  readonly reservation: Reservation;
  readonly at: number;
  /** Reserved against limits, and settled by whoever reserved it. */
  readonly isReserved: boolean;
  state: 'unwritten' | 'written' | 'given back';
};

/** A difference between what was counted and what the ledger holds. */
export type Difference = { what: string; expected: number; found: number };

/**
 * Counters over the ledger of one file. One process owns the file, so they are exact without asking it:
 *
 *   file ──opening──▶ sums ◀──reserve, entering──  batches on their way
 *                      └──settle, entered: stays counted, or is given back
 */
export class UsageLedger implements UsageCounters {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By organization, and by organization and project. */
  readonly #windows = new Map<string, Windows>();
  readonly #underWay = new Map<string, UnderWay>();
  /** Entries of batches that another file keeps, to be written. */
  #unwritten: LedgerRow[] = [];
  #cancelFlush: (() => void) | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(database: Database, clock: Clock, logger: Logger) {
    this.#database = database;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Reads what the file holds of the windows in force. */
  async load(): Promise<void> {
    const now = this.#clock.now();
    const last = Math.floor(now / HOUR_MS) + TRUSTED_HOURS_AHEAD;
    const from = monthStart(now) / HOUR_MS;
    const newest = await this.#database.read('usage.newest', [from, last]);
    for (const [organization, hour] of newest as [string, number][]) {
      const at = Math.max(now, hour * HOUR_MS);
      for (const sum of await this.#sumsAt(at)) {
        if (sum[0] !== organization) continue;
        const [, project, events, bytes] = sum;
        for (const name of [organization, scopeOf(organization, project)]) {
          const windows = this.#windowsOf(name, at);
          windows.events += events;
          windows.bytes += bytes;
        }
      }
    }
  }

  async #sumsAt(at: number): Promise<UsageSum[]> {
    const hours = [monthStart(at) / HOUR_MS, monthStart(at, 1) / HOUR_MS, Math.floor(at / HOUR_MS)];
    return (await this.#database.search('usage.sums', hours)) as UsageSum[];
  }

  #windowsOf(name: string, at: number): Windows {
    const month = monthStart(at);
    const hour = Math.floor(at / HOUR_MS);
    let windows = this.#windows.get(name);
    if (windows === undefined) {
      windows = { month, events: 0, hour, bytes: 0 };
      this.#windows.set(name, windows);
      return windows;
    }
    if (month > windows.month) {
      windows.month = month;
      windows.events = 0;
    }
    if (hour > windows.hour) {
      windows.hour = hour;
      windows.bytes = 0;
    }
    return windows;
  }

  /** A clock that goes back does not open a window again: what comes then counts in the newest one. */
  #timeOf(organizationId: string, at: number): number {
    const newest = this.#windows.get(organizationId);
    return newest === undefined ? at : Math.max(at, newest.hour * HOUR_MS);
  }

  peek(tenant: Reservation['tenant'], limits: QuotaLimits, at: number): QuotaVerdict {
    // Exhausted means that not one event, or one byte, more has room.
    return this.#check(tenant, { events: 1, bytes: 1 }, limits, at);
  }

  reserve(reservation: Reservation, limits: QuotaLimits): QuotaVerdict {
    const { tenant, usage } = reservation;
    const at = this.#timeOf(tenant.organizationId, reservation.at);
    for (const { scope, bytesPerHour: most } of scopesOf(limits)) {
      if (most === null || usage.bytes <= most) continue;
      const resetsAt = windowAt(at).hourEnd;
      return { admitted: false, code: 'exceeds_hourly_limit', ...scope, resetsAt };
    }
    const verdict = this.#check(tenant, usage, limits, at);
    if (verdict.admitted) this.#add(reservation, verdict.at, true);
    return verdict;
  }

  #check(
    { organizationId, projectId }: Reservation['tenant'],
    usage: Reservation['usage'],
    limits: QuotaLimits,
    requestedAt: number,
  ): QuotaVerdict {
    const at = this.#timeOf(organizationId, requestedAt);
    const scopes = scopesOf(limits);
    const windowsOf = (scope: Scope['scope']) =>
      this.#windowsOf(
        scope === undefined ? organizationId : scopeOf(organizationId, projectId),
        at,
      );
    for (const { scope, eventsPerMonth } of scopes) {
      if (eventsPerMonth === null || usage.events === 0) continue;
      if (windowsOf(scope).events + usage.events <= eventsPerMonth) continue;
      return { admitted: false, code: 'monthly_limit', ...scope, resetsAt: monthStart(at, 1) };
    }
    for (const { scope, bytesPerHour } of scopes) {
      if (bytesPerHour === null || usage.bytes === 0) continue;
      if (windowsOf(scope).bytes + usage.bytes <= bytesPerHour) continue;
      return { admitted: false, code: 'hourly_limit', ...scope, resetsAt: windowAt(at).hourEnd };
    }
    return { admitted: true, at };
  }

  #add(reservation: Reservation, at: number, isReserved: boolean): void {
    const entry: UnderWay = { reservation, at, isReserved, state: 'unwritten' };
    this.#underWay.set(reservation.batchId, entry);
    this.#change(entry, 1);
  }

  /** What is given back to a window that is over is given back to nobody. */
  #change({ reservation, at }: UnderWay, sign: 1 | -1): void {
    const { tenant, usage } = reservation;
    const { organizationId, projectId } = tenant;
    for (const name of [organizationId, scopeOf(organizationId, projectId)]) {
      const windows = this.#windowsOf(name, at);
      if (windows.month === monthStart(at)) windows.events += sign * usage.events;
      if (windows.hour === Math.floor(at / HOUR_MS)) windows.bytes += sign * usage.bytes;
    }
  }

  /** Before this file takes a batch in: the time at which its ledger entry counts. */
  entering(batch: SealedBatch): number {
    const known = this.#underWay.get(batch.id);
    if (known !== undefined) return known.at;
    const { id: batchId, tenant, usage } = batch;
    const at = this.#timeOf(tenant.organizationId, usage.at ?? batch.receivedAt);
    this.#add({ batchId, tenant, usage, at }, at, false);
    return at;
  }

  /** After that: `written` where the entry is new in the ledger. */
  entered(batchId: string, outcome: 'written' | 'known' | 'failed'): void {
    const entry = this.#underWay.get(batchId);
    if (entry === undefined || entry.state !== 'unwritten') return;
    if (outcome === 'written') entry.state = 'written';
    else if (outcome === 'known' || !entry.isReserved) {
      // What was counted before is not counted twice.
      entry.state = 'given back';
      this.#change(entry, -1);
    }
    if (!entry.isReserved) this.#underWay.delete(batchId);
  }

  settle({ batchId }: Reservation, isDurable: boolean): void {
    const entry = this.#underWay.get(batchId);
    if (entry === undefined) return;
    this.#underWay.delete(batchId);
    if (entry.state !== 'unwritten') return;
    if (isDurable) this.#writeLater(entry);
    else this.#change(entry, -1);
  }

  #writeLater({ reservation, at }: UnderWay): void {
    const { batchId, tenant, usage } = reservation;
    const { organizationId, projectId, keyId } = tenant;
    const { events, bytes } = usage;
    this.#unwritten.push([batchId, organizationId, projectId, keyId, at, events, bytes]);
    this.#cancelFlush ??= this.#clock.after(FLUSH_MS, () => void this.flush());
  }

  /** Writes the entries of batches that another file keeps; what cannot be written is tried again. */
  flush(): Promise<void> {
    this.#cancelFlush?.();
    this.#cancelFlush = undefined;
    this.#flushing = this.#flushing.then(async () => {
      const rows = this.#unwritten;
      if (rows.length === 0) return;
      this.#unwritten = [];
      try {
        await this.#database.write('usage.record', [rows]);
      } catch (error) {
        this.#unwritten = [...rows, ...this.#unwritten];
        this.#logger.warn({ error, entries: rows.length }, 'usage could not be written down yet');
        if (this.#isClosed) return;
        this.#cancelFlush ??= this.#clock.after(1000, () => void this.flush());
      }
    });
    return this.#flushing;
  }

  read(organizationId: string, projectId?: string): UsageInForce {
    const at = this.#timeOf(organizationId, this.#clock.now());
    const name = projectId === undefined ? organizationId : scopeOf(organizationId, projectId);
    const windows = this.#windowsOf(name, at);
    return {
      month: { events: windows.events, resetsAt: monthStart(at, 1) },
      hour: { bytes: windows.bytes, resetsAt: windowAt(at).hourEnd },
    };
  }

  /**
   * Sums the ledger up and compares. What is on its way meanwhile may stand in the file already or not;
   * beside that every difference is reported.
   */
  async verify(): Promise<Difference[]> {
    await this.flush();
    const differences: Difference[] = [];
    for (const organization of [...this.#windows.keys()].filter(isOrganization)) {
      const at = this.#timeOf(organization, this.#clock.now());
      const before = this.#settledAt(organization, at);
      const sums = (await this.#sumsAt(at)).filter(([owner]) => owner === organization);
      const after = this.#countedAt(organization, at);
      const found = foundOf(organization, sums);
      for (const name of new Set([...before.keys(), ...found.keys(), ...after.keys()])) {
        for (const [i, what] of ['events of the month', 'bytes of the hour'].entries()) {
          const expected = found.get(name)?.[i] ?? 0;
          const least = before.get(name)?.[i] ?? 0;
          const most = after.get(name)?.[i] ?? 0;
          if (expected >= least && expected <= most) continue;
          differences.push({ what: `${what}: ${name}`, expected, found: least });
        }
      }
    }
    return differences;
  }

  /** Counted and certainly in the file. */
  #settledAt(organization: string, at: number): Map<string, [number, number]> {
    const sums = this.#countedAt(organization, at);
    for (const { reservation, at: countedAt, state } of this.#underWay.values()) {
      const { tenant, usage } = reservation;
      if (state !== 'unwritten' || tenant.organizationId !== organization) continue;
      for (const name of [organization, scopeOf(organization, tenant.projectId)]) {
        const sum = sums.get(name);
        if (sum === undefined) continue;
        if (monthStart(countedAt) === monthStart(at)) sum[0] -= usage.events;
        if (Math.floor(countedAt / HOUR_MS) === Math.floor(at / HOUR_MS)) sum[1] -= usage.bytes;
      }
    }
    return sums;
  }

  #countedAt(organization: string, at: number): Map<string, [number, number]> {
    const sums = new Map<string, [number, number]>();
    for (const name of this.#windows.keys()) {
      if (name !== organization && !name.startsWith(`${organization} `)) continue;
      const { events, bytes } = this.#windowsOf(name, at);
      sums.set(name, [events, bytes]);
    }
    return sums;
  }

  #rollUpFrom = '';

  /** Sums up a step of the hours that are over; resolves with whether more is left. */
  async rollUp(): Promise<boolean> {
    const now = this.#clock.now();
    const args = [this.#rollUpFrom, now];
    const next = (await this.#database.write('usage.rollUp', args, { lazy: true })) as
      | string
      | null;
    this.#rollUpFrom = next ?? '';
    if (next === null) this.#forgetPastMonths(now);
    return next !== null;
  }

  #forgetPastMonths(now: number): void {
    for (const [name, { month }] of this.#windows) {
      if (!isOrganization(name) && month < monthStart(now)) this.#windows.delete(name);
    }
  }

  /** Before the database is closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
    this.crash();
  }

  crash(): void {
    this.#isClosed = true;
    this.#cancelFlush?.();
    this.#cancelFlush = undefined;
  }
}

type Scope = ProjectLimits & { readonly scope: { readonly scope: 'project' } | undefined };
const PROJECT = { scope: 'project' } as const;

/** Whose limits are looked at, in this order. */
function scopesOf(limits: QuotaLimits): Scope[] {
  const { eventsPerMonth, bytesPerHour, project } = limits;
  const organization = { scope: undefined, eventsPerMonth, bytesPerHour };
  return project === undefined ? [organization] : [organization, { scope: PROJECT, ...project }];
}

/** Ids hold no blank. */
function scopeOf(organizationId: string, projectId: string): string {
  return `${organizationId} ${projectId}`;
}

function isOrganization(name: string): boolean {
  return !name.includes(' ');
}

function foundOf(organization: string, sums: readonly UsageSum[]): Map<string, [number, number]> {
  const found = new Map<string, [number, number]>();
  for (const [, project, events, bytes] of sums) {
    for (const name of [organization, scopeOf(organization, project)]) {
      const sum = found.get(name) ?? [0, 0];
      found.set(name, [sum[0] + events, sum[1] + bytes]);
    }
  }
  return found;
}
