import type { Metrics } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import type { UsageCounters, UsageInForce } from '../../src/tenancy/contract.ts';
import type { Allowance } from './allowance.ts';

/** Usage and limits, for metrics and `/readyz?verbose`. */
export type QuotaReport = {
  /**
   * Reports the usage of this organization too. Fixed keys next to a store belong to an organization of their own,
   * with the same limits and a separate count.
   */
  note(organizationId: string): void;
  health(): ComponentHealth;
  /** Removes the gauges. */
  close(): void;
};

export function quotaReport(
  counters: UsageCounters,
  allowance: Allowance,
  metrics: Metrics,
): QuotaReport {
  const organizations = new Map<string, UsageSource>();
  const note = (id: string): void => {
    if (!organizations.has(id))
      organizations.set(
        id,
        usageSource(() => counters.read(id)),
      );
  };
  note(allowance.organizationId);
  const lastUsage = () =>
    [...organizations].flatMap(([organization, { last }]) => {
      const used = last();
      return used === undefined ? [] : [{ organization, ...used }];
    });
  const used = (name: string, description: string, read: (used: UsageInForce) => number) =>
    metrics.gauge(name, description, async () => {
      const points = await Promise.all(
        [...organizations].map(async ([organization, { now }]) => {
          const usage = await now();
          return usage === undefined ? [] : [{ value: read(usage), labels: { organization } }];
        }),
      );
      return points.flat();
    });
  const limit = (name: string, description: string, read: () => number | null) =>
    metrics.gauge(name, description, () => {
      const value = read();
      return value === null ? [] : [{ value }];
    });
  const removers = [
    used(
      'tracectl_quota_month_events',
      'Events of this month, accepted or reserved, by organization',
      ({ month }) => month.events,
    ),
    limit(
      'tracectl_quota_month_events_limit',
      'Events that a month allows; absent if unlimited',
      () => allowance.limits().eventsPerMonth,
    ),
    used(
      'tracectl_quota_hour_bytes',
      'Payload bytes of this hour, accepted or reserved, by organization',
      ({ hour }) => hour.bytes,
    ),
    limit(
      'tracectl_quota_hour_bytes_limit',
      'Payload bytes that an hour allows; absent if unlimited',
      () => allowance.limits().bytesPerHour,
    ),
  ];
  return {
    note,
    health: () => healthOf(lastUsage(), allowance),
    close() {
      for (const remove of removers) remove();
    },
  };
}

type OrganizationUsage = UsageInForce & { readonly organization: string };

/** The process stays ready over a limit, because other replicas would refuse the same requests. */
function healthOf(usage: readonly OrganizationUsage[], allowance: Allowance): ComponentHealth {
  const { eventsPerMonth, bytesPerHour } = allowance.limits();
  const [first, ...others] = usage;
  if (first === undefined) return {};
  const { month, hour } = first;
  const isOver = (limit: number | null, read: (used: UsageInForce) => number) =>
    limit !== null && usage.some((each) => read(each) >= limit);
  const isMonthOver = isOver(eventsPerMonth, (each) => each.month.events);
  const isHourOver = isOver(bytesPerHour, (each) => each.hour.bytes);
  const message = isMonthOver
    ? 'The events of this month are used up.'
    : isHourOver
      ? 'The bytes of this hour are used up.'
      : undefined;
  return {
    ...(message === undefined ? {} : { message }),
    details: {
      month_events: month.events,
      month_events_limit: eventsPerMonth,
      month_resets_at: new Date(month.resetsAt).toISOString(),
      hour_bytes: hour.bytes,
      hour_bytes_limit: bytesPerHour,
      hour_resets_at: new Date(hour.resetsAt).toISOString(),
      ...Object.fromEntries(others.flatMap(ownDetails)),
    },
  };
}

function ownDetails({ organization, month, hour }: OrganizationUsage): [string, number][] {
  return [
    [`month_events ${organization}`, month.events],
    [`hour_bytes ${organization}`, hour.bytes],
  ];
}

/** The usage of one organization. */
type UsageSource = {
  /** Undefined if the counters cannot be read. */
  now(): Promise<UsageInForce | undefined>;
  /** Health is synchronous: with counters in Redis it shows the newest read, and starts the next one. */
  last(): UsageInForce | undefined;
};

function usageSource(read: () => UsageInForce | Promise<UsageInForce>): UsageSource {
  let newest: UsageInForce | undefined;

  async function now(): Promise<UsageInForce | undefined> {
    try {
      newest = await read();
      return newest;
    } catch {
      return undefined;
    }
  }

  return {
    now,
    last() {
      const answer = read();
      if (!(answer instanceof Promise)) return answer;
      answer.then(
        (found) => {
          newest = found;
        },
        // The next report retries.
        () => {},
      );
      return newest;
    },
  };
}
