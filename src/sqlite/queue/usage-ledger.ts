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
import type { VerifyProgress } from '../../tenancy/rows.ts';
import type { Difference } from '../../tenancy/usage.ts';
import type { Database } from '../database.ts';
import type { QueueOperations } from './operations.ts';
import type { LedgerRow, UsageSum } from './usage-operations.ts';
import { readUsage, VERIFY_STEP } from './usage-pages.ts';

/** Ledger entries and batches that are further ahead of the clock than this are not trusted. */
const TRUSTED_HOURS_AHEAD = 1;
/** The longest that the ledger entry of a batch in another file waits to be written with others. */
const FLUSH_MS = 200;

/** The usage of an organization or project in the newest month and hour that it was seen in. */
type Windows = {
  month: number;
  events: number;
  hour: number;
  bytes: number;
  /** Counts of the months before, newest first: one is in force again if it turns out that the clock was ahead across the end of its month. */
  past: readonly { readonly month: number; readonly events: number }[];
  /** Before the last moves by more than an hour, newest first: one is in force again if it turns out that the clock was ahead. */
  before: readonly Windows[];
};

/** A clock that is set in steps may be ahead across the ends of several months, and have counted in each. */
const PAST_MONTHS = 3;
/** As many steps may be longer than an hour. */
const PAST_MOVES = 8;

/** A batch that is counted and not settled. */
type Unsettled = {
  readonly reservation: Reservation;
  readonly at: number;
  /** Reserved against limits; the caller of `reserve` settles it. */
  readonly isReserved: boolean;
  /** `recording`: it is durable in another file, and its ledger entry waits to be written. */
  state: 'unwritten' | 'recording' | 'written' | 'returned';
};

/** The usage of an organization or project in the current windows. */
type Counted = { events: number; bytes: number };

const MEASURES = { events: 'events of the month', bytes: 'bytes of the hour' } as const;

/**
 * Counters over the ledger of one file. One process owns the file, so they are exact without reading it:
 *
 *   file ──opening──▶ sums ◀──reserve, entering──  unsettled batches
 *                      └──settle, entered: the usage stays counted, or is returned
 */
export class UsageLedger implements UsageCounters {
  readonly #database: Database<QueueOperations>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Keyed by organization, and by organization and project. */
  readonly #windows = new Map<string, Windows>();
  /** Keyed by batch id. */
  readonly #unsettled = new Map<string, Unsettled>();
  /** Ledger entries of batches in other files, to be written. */
  #unwritten: LedgerRow[] = [];
  #cancelFlush: (() => void) | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(database: Database<QueueOperations>, clock: Clock, logger: Logger) {
    this.#database = database;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Reads the current windows from the file. */
  async load(): Promise<void> {
    const now = this.#clock.now();
    const from = monthStart(now) / HOUR_MS;
    const newest = await this.#database.read('usage.newest', [from, this.#lastTrusted()]);
    for (const { organization, hour } of newest) {
      const at = Math.max(now, hour * HOUR_MS);
      for (const sum of await this.#sumsAt(at)) {
        if (sum.organization !== organization) continue;
        for (const name of [organization, scopeOf(organization, sum.project)]) {
          const windows = this.#windowsOf(name, at);
          windows.events += sum.events;
          windows.bytes += sum.bytesOfHour;
        }
      }
    }
  }

  #sumsAt(at: number): Promise<UsageSum[]> {
    const [from, to] = [monthStart(at) / HOUR_MS, monthStart(at, 1) / HOUR_MS];
    return this.#database.search('usage.sums', [from, to, Math.floor(at / HOUR_MS)]);
  }

  #windowsOf(name: string, at: number): Windows {
    const month = monthStart(at);
    const hour = Math.floor(at / HOUR_MS);
    let windows = this.#trusted(this.#windows.get(name));
    if (windows === undefined) {
      windows = newWindows(month, hour);
      this.#windows.set(name, windows);
      return windows;
    }
    if (hour > this.#lastTrusted()) return windows;
    if (hour > windows.hour + 1) {
      windows.before = [{ ...windows, before: [] }, ...windows.before].slice(0, PAST_MOVES);
    }
    if (month > windows.month) {
      const { events, past } = windows;
      windows.past = [{ month: windows.month, events }, ...past].slice(0, PAST_MONTHS);
      windows.month = month;
      windows.events = 0;
    }
    if (hour > windows.hour) {
      windows.hour = hour;
      windows.bytes = 0;
    }
    return windows;
  }

  /**
   * Puts windows back that a clock has moved which was ahead, so that no limit waits until that time. The usage of the present month
   * stays, also what was counted at its later hours.
   */
  #trusted(windows: Windows | undefined): Windows | undefined {
    const last = this.#lastTrusted();
    if (windows === undefined || windows.hour <= last) return windows;
    const now = this.#clock.now();
    const [month, hour] = [monthStart(now), Math.floor(now / HOUR_MS)];
    const at = windows.before.findIndex((moved) => moved.hour <= last);
    const moved = windows.before[at];
    const restored =
      moved === undefined
        ? newWindows(month, hour)
        : { ...moved, before: windows.before.slice(at + 1) };
    const past = windows.past.filter((counted) => counted.month < month);
    const present = [windows, ...windows.past].find((counted) => counted.month === month);
    const counts = present === undefined ? {} : { month, events: present.events };
    return Object.assign(windows, restored, { past }, counts);
  }

  /** The clock may be behind by no more than this. */
  #lastTrusted(): number {
    return Math.floor(this.#clock.now() / HOUR_MS) + TRUSTED_HOURS_AHEAD;
  }

  /** A clock that goes back does not reopen a window: later usage counts in the newest window. */
  #timeOf(organizationId: string, at: number): number {
    const newest = this.#trusted(this.#windows.get(organizationId));
    return newest === undefined ? at : Math.max(at, newest.hour * HOUR_MS);
  }

  peek(tenant: Reservation['tenant'], limits: QuotaLimits, at: number): QuotaVerdict {
    // A limit is exhausted if there is no room for one more event, or byte.
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
    const entry: Unsettled = { reservation, at, isReserved, state: 'unwritten' };
    this.#unsettled.set(reservation.batchId, entry);
    this.#change(entry, 1);
  }

  /** Usage of a past window changes no counter. */
  #change({ reservation, at }: Unsettled, sign: 1 | -1): void {
    const { tenant, usage } = reservation;
    const { organizationId, projectId } = tenant;
    for (const name of [organizationId, scopeOf(organizationId, projectId)]) {
      const windows = this.#windowsOf(name, at);
      if (windows.month === monthStart(at)) windows.events += sign * usage.events;
      if (windows.hour === Math.floor(at / HOUR_MS)) windows.bytes += sign * usage.bytes;
    }
  }

  /** The clock of another machine opens no window: a time after the next hour counts as the present. */
  #notAhead(at: number): number {
    return Math.floor(at / HOUR_MS) > this.#lastTrusted() ? this.#clock.now() : at;
  }

  /** Called before the file gets a batch; returns the time of its ledger entry. */
  entering(batch: SealedBatch): number {
    const known = this.#unsettled.get(batch.id);
    if (known !== undefined) return known.at;
    const { id: batchId, tenant, usage } = batch;
    const at = this.#timeOf(tenant.organizationId, this.#notAhead(usage.at ?? batch.receivedAt));
    this.#add({ batchId, tenant, usage, at }, at, false);
    return at;
  }

  /** Called after the write: `written` if the ledger has a new entry. */
  entered(batchId: string, outcome: 'written' | 'known' | 'failed'): void {
    const entry = this.#unsettled.get(batchId);
    if (entry === undefined || entry.state !== 'unwritten') return;
    if (outcome === 'written') entry.state = 'written';
    else if (outcome === 'known' || !entry.isReserved) {
      // The ledger has counted the batch before, or it was not written.
      entry.state = 'returned';
      this.#change(entry, -1);
    }
    if (!entry.isReserved) this.#unsettled.delete(batchId);
  }

  settle({ batchId }: Reservation, isDurable: boolean): void {
    const entry = this.#unsettled.get(batchId);
    if (entry === undefined || entry.state === 'recording') return;
    if (entry.state === 'unwritten' && isDurable) {
      this.#writeLater(entry);
      return;
    }
    this.#unsettled.delete(batchId);
    if (entry.state === 'unwritten') this.#change(entry, -1);
  }

  /** The batch stays known until then: this file may get it before its ledger entry. */
  #writeLater(entry: Unsettled): void {
    entry.state = 'recording';
    const { reservation, at } = entry;
    const { batchId, tenant, usage } = reservation;
    const { organizationId: organization, projectId: project, keyId: key } = tenant;
    this.#unwritten.push({ batchId, organization, project, key, at, ...usage });
    this.#cancelFlush ??= this.#clock.after(FLUSH_MS, () => void this.flush());
  }

  /** Writes the ledger entries of batches in other files; retries those that could not be written. */
  flush(): Promise<void> {
    this.#cancelFlush?.();
    this.#cancelFlush = undefined;
    this.#flushing = this.#flushing.then(async () => {
      const entries = this.#unwritten;
      if (entries.length === 0) return;
      this.#unwritten = [];
      try {
        await this.#database.write('usage.record', [entries]);
        for (const { batchId } of entries) this.#unsettled.delete(batchId);
      } catch (err) {
        this.#unwritten = [...entries, ...this.#unwritten];
        this.#logger.warn(
          { err, entries: entries.length },
          'Usage could not be recorded; retrying',
        );
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
   * Compares the counters with the sums of the ledger. An unsettled batch may be in the file or not, so its usage is
   * no difference.
   */
  async verify(progress: VerifyProgress = () => {}): Promise<Difference[]> {
    await this.flush();
    const organizations = [...this.#windows.keys()].filter(isOrganization);
    const differences: Difference[] = [];
    for (const organization of organizations) {
      differences.push(...(await this.#verifyOne(organization, progress)));
    }
    return differences;
  }

  /** Sums that take longer than the rest of the hour are those of no window: they are read again. */
  async #verifyOne(organization: string, progress: VerifyProgress): Promise<Difference[]> {
    for (;;) {
      const at = this.#timeOf(organization, this.#clock.now());
      const before = this.#settledAt(organization, at);
      const found = await this.holdStill(() => this.#readSums(organization, at, progress));
      const end = this.#timeOf(organization, this.#clock.now());
      if (windowAt(end).hourEnd !== windowAt(at).hourEnd) continue;
      const after = this.#countedAt(organization, at);
      const differences: Difference[] = [];
      for (const name of new Set([...before.keys(), ...found.keys(), ...after.keys()])) {
        for (const measure of ['events', 'bytes'] as const) {
          const expected = found.get(name)?.[measure] ?? 0;
          const least = before.get(name)?.[measure] ?? 0;
          const most = after.get(name)?.[measure] ?? 0;
          if (expected >= least && expected <= most) continue;
          differences.push({ what: `${MEASURES[measure]}: ${name}`, expected, found: least });
        }
      }
      return differences;
    }
  }

  async #readSums(
    organization: string,
    at: number,
    progress: VerifyProgress,
  ): Promise<Map<string, Counted>> {
    const [from, to] = [monthStart(at) / HOUR_MS, monthStart(at, 1) / HOUR_MS];
    const hour = Math.floor(at / HOUR_MS);
    const found = new Map<string, Counted>();
    await readUsage(this.#database, VERIFY_STEP, progress, (sum) => {
      if (sum.organization !== organization || sum.hour < from || sum.hour >= to) return;
      for (const name of [organization, scopeOf(organization, sum.project)]) {
        const counted = found.get(name) ?? { events: 0, bytes: 0 };
        const bytes = counted.bytes + (sum.hour === hour ? sum.bytes : 0);
        found.set(name, { events: counted.events + sum.events, bytes });
      }
    });
    return found;
  }

  #holders = 0;
  #rollingUp: Promise<unknown> = Promise.resolve();

  /** Runs `work` while no usage moves from the rows of batches to the sums by hour. */
  async holdStill<T>(work: () => Promise<T>): Promise<T> {
    this.#holders++;
    try {
      await this.#rollingUp;
      return await work();
    } finally {
      this.#holders--;
    }
  }

  /** Usage that is counted and certainly in the file. */
  #settledAt(organization: string, at: number): Map<string, Counted> {
    const sums = this.#countedAt(organization, at);
    for (const { reservation, at: countedAt, state } of this.#unsettled.values()) {
      const { tenant, usage } = reservation;
      const isInFile = state === 'written' || state === 'returned';
      if (isInFile || tenant.organizationId !== organization) continue;
      for (const name of [organization, scopeOf(organization, tenant.projectId)]) {
        const sum = sums.get(name);
        if (sum === undefined) continue;
        if (monthStart(countedAt) === monthStart(at)) sum.events -= usage.events;
        if (Math.floor(countedAt / HOUR_MS) === Math.floor(at / HOUR_MS)) sum.bytes -= usage.bytes;
      }
    }
    return sums;
  }

  #countedAt(organization: string, at: number): Map<string, Counted> {
    const sums = new Map<string, Counted>();
    for (const name of this.#windows.keys()) {
      if (name !== organization && !name.startsWith(`${organization} `)) continue;
      const { events, bytes } = this.#windowsOf(name, at);
      sums.set(name, { events, bytes });
    }
    return sums;
  }

  #rollUpFrom = '';

  /** Sums up one step of past hours; resolves with whether more is left. */
  async rollUp(): Promise<boolean> {
    if (this.#holders > 0) return false;
    const rolling = this.#rollUpStep();
    this.#rollingUp = rolling.catch(() => {});
    return rolling;
  }

  async #rollUpStep(): Promise<boolean> {
    const now = this.#clock.now();
    const next = await this.#database.write('usage.rollUp', [this.#rollUpFrom, now], {
      lazy: true,
    });
    this.#rollUpFrom = next ?? '';
    if (next === null) this.#forgetPastMonths();
    return next !== null;
  }

  /** The clock may be ahead, so that the newest month of an organization, and the months before that it counted in, stay. */
  #forgetPastMonths(): void {
    for (const [name, { month }] of this.#windows) {
      const newest = this.#windows.get(organizationOf(name));
      if (newest === undefined || month >= (newest.past.at(-1) ?? newest).month) continue;
      this.#windows.delete(name);
    }
  }

  /** Writes the entries that wait; called before the database closes. */
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

/** The limits that are checked, in this order. */
function scopesOf(limits: QuotaLimits): Scope[] {
  const { eventsPerMonth, bytesPerHour, project } = limits;
  const organization = { scope: undefined, eventsPerMonth, bytesPerHour };
  return project === undefined ? [organization] : [organization, { scope: PROJECT, ...project }];
}

/** The name of a project's windows. Ids contain no space. */
function scopeOf(organizationId: string, projectId: string): string {
  if (last.organizationId !== organizationId || last.projectId !== projectId) {
    last = { organizationId, projectId, name: `${organizationId} ${projectId}` };
  }
  return last.name;
}

/** The name that was asked for last: each request asks for that of its project several times, and a map finds a new text more slowly. */
let last = { organizationId: '', projectId: '', name: ' ' };

function isOrganization(name: string): boolean {
  return !name.includes(' ');
}

function organizationOf(name: string): string {
  return name.split(' ', 1)[0] ?? '';
}

function newWindows(month: number, hour: number): Windows {
  return { month, events: 0, hour, bytes: 0, past: [], before: [] };
}
