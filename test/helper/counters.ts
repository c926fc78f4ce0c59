import type {
  Organization,
  OrganizationStore,
  ProjectLimits,
  ProjectStore,
  QuotaLimits,
  QuotaVerdict,
  Reservation,
  UsageCounters,
  UsageInForce,
} from '../../src/tenancy/contract.ts';

/** Counters in memory with a ledger that a test reads; as simple as the contract allows. */
export type MemoryCounters = UsageCounters & {
  /** Durable batches, with the time at which they count. */
  readonly ledger: (Reservation & { countsAt: number })[];
  /** Batches whose reservation was admitted and not settled. */
  readonly open: Set<string>;
  /** Answers asynchronously, as counters elsewhere do. */
  later: boolean;
};

const HOUR = 3_600_000;

export function memoryCounters(): MemoryCounters {
  const sums = new Map<string, number>();
  const ledger: MemoryCounters['ledger'] = [];
  const open = new Set<string>();
  const times = new Map<string, number>();
  let newestHour = Number.NEGATIVE_INFINITY;
  const counters: MemoryCounters = {
    ledger,
    open,
    later: false,
    peek: (_tenant, limits, at) => answer(check(limits, timeOf(at), 0, 0)),
    reserve(reservation, limits) {
      const { usage } = reservation;
      const at = timeOf(reservation.at);
      const verdict = check(limits, at, usage.events, usage.bytes);
      if (verdict.admitted) {
        add(at, usage.events, usage.bytes);
        open.add(reservation.batchId);
        times.set(reservation.batchId, at);
      }
      return answer(verdict);
    },
    settle(reservation, isDurable) {
      if (!open.delete(reservation.batchId)) throw new Error('settled twice, or never admitted');
      const at = times.get(reservation.batchId) ?? reservation.at;
      if (isDurable) ledger.push({ ...reservation, countsAt: at });
      else add(at, -reservation.usage.events, -reservation.usage.bytes);
    },
    read() {
      const at = Math.max(newestHour, 0);
      const used: UsageInForce = {
        month: { events: sums.get(monthOf(at)) ?? 0, resetsAt: monthEnd(at) },
        hour: { bytes: sums.get(hourOf(at)) ?? 0, resetsAt: hourEnd(at) },
      };
      return answer(used);
    },
  };

  function answer<T>(value: T): T | Promise<T> {
    return counters.later ? Promise.resolve(value) : value;
  }

  /** A clock that goes back stays in the newest hour. */
  function timeOf(at: number): number {
    newestHour = Math.max(newestHour, Math.floor(at / HOUR) * HOUR);
    return Math.max(at, newestHour);
  }

  function add(at: number, events: number, bytes: number): void {
    sums.set(monthOf(at), (sums.get(monthOf(at)) ?? 0) + events);
    sums.set(hourOf(at), (sums.get(hourOf(at)) ?? 0) + bytes);
  }

  function check(limits: QuotaLimits, at: number, events: number, bytes: number): QuotaVerdict {
    const { eventsPerMonth, bytesPerHour } = limits;
    const isFull = (used: number, more: number, limit: number | null) =>
      limit !== null && (more === 0 ? used >= limit : used + more > limit);
    if (isFull(sums.get(monthOf(at)) ?? 0, events, eventsPerMonth)) {
      return { admitted: false, code: 'monthly_limit', resetsAt: monthEnd(at) };
    }
    if (bytesPerHour !== null && bytes > bytesPerHour) {
      return { admitted: false, code: 'exceeds_hourly_limit', resetsAt: hourEnd(at) };
    }
    if (isFull(sums.get(hourOf(at)) ?? 0, bytes, bytesPerHour)) {
      return { admitted: false, code: 'hourly_limit', resetsAt: hourEnd(at) };
    }
    return { admitted: true, at };
  }
  return counters;
}

const monthOf = (at: number) => new Date(at).toISOString().slice(0, 7);
const hourOf = (at: number) => new Date(at).toISOString().slice(0, 13);
const hourEnd = (at: number) => (Math.floor(at / HOUR) + 1) * HOUR;

function monthEnd(at: number): number {
  const date = new Date(at);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
}

/** Projects of which a test sets the limits. */
export function memoryProjects(): {
  store: Pick<ProjectStore, 'ownLimits' | 'onLimits' | 'onDelete'>;
  limit(projectId: string, limits: Partial<ProjectLimits>, silently?: boolean): void;
  delete(projectId: string): void;
} {
  const own = new Map<string, ProjectLimits>();
  const limited = new Set<(projectId: string, limits: ProjectLimits) => void>();
  const deleted = new Set<(projectId: string) => void>();
  return {
    limit(projectId, changed, silently = false) {
      const limits = { eventsPerMonth: null, bytesPerHour: null, ...changed };
      own.set(projectId, limits);
      if (!silently) for (const listener of limited) listener(projectId, limits);
    },
    delete(projectId) {
      own.delete(projectId);
      for (const listener of deleted) listener(projectId);
    },
    store: {
      ownLimits: async () => new Map(own),
      onLimits(listener) {
        limited.add(listener);
        return () => limited.delete(listener);
      },
      onDelete(listener) {
        deleted.add(listener);
        return () => deleted.delete(listener);
      },
    },
  };
}

/** One organization whose limits a test changes. */
export function memoryOrganization(limits: Partial<Organization['limits']> = {}): {
  store: OrganizationStore;
  change(limits: Partial<Organization['limits']>, silently?: boolean): void;
  readonly asked: number;
  fails: boolean;
  /** How it fails from now on; undefined: it works. */
  failWith(error: Error | undefined): void;
} {
  const listeners = new Set<(organization: Organization) => void>();
  const unlimited = {
    projects: null,
    eventsPerMonth: null,
    bytesPerHour: null,
    retentionDays: null,
  };
  let organization: Organization = {
    id: 'org_a',
    name: 'a',
    plan: 'scale',
    limits: { ...unlimited, ...limits },
    createdAt: 0,
  };
  let asked = 0;
  let failure: Error | undefined;
  const made = {
    fails: false,
    failWith(error: Error | undefined) {
      failure = error;
    },
    get asked() {
      return asked;
    },
    change(changed: Partial<Organization['limits']>, silently = false) {
      organization = { ...organization, limits: { ...organization.limits, ...changed } };
      if (!silently) for (const listener of listeners) listener(organization);
    },
    store: {
      async get() {
        asked++;
        if (made.fails) throw new Error('away');
        if (failure !== undefined) throw failure;
        return organization;
      },
      plans: () => Promise.reject(new Error('not used here')),
      update: () => Promise.reject(new Error('not used here')),
      onChange(listener: (organization: Organization) => void) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
  };
  return made;
}
