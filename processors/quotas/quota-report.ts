import type { Metrics } from '../../src/component/component.ts';
import type { UsageCounters, UsageInForce } from '../../src/store/tenancy.ts';
import type { ComponentHealth } from '../../src/telemetry/health.ts';
import type { Allowance } from './allowance.ts';

/** What is used of what is allowed, for scrapes and `/readyz?verbose`. */
export type QuotaReport = {
  health(): ComponentHealth;
  /** Takes the gauges back. */
  close(): void;
};

export function quotaReport(
  counters: UsageCounters,
  allowance: Allowance,
  metrics: Metrics,
): QuotaReport {
  const used = lastRead(() => counters.read(allowance.organizationId));
  const point = (value: number | null | undefined) =>
    typeof value === 'number' ? [{ value }] : [];
  const gauge = (name: string, description: string, read: () => number | null | undefined) =>
    metrics.gauge(name, description, () => point(read()));
  const removers = [
    gauge(
      'tracectl_quota_month_events',
      'Events of this month that were accepted or are on their way.',
      () => used()?.month.events,
    ),
    gauge(
      'tracectl_quota_month_events_limit',
      'Events that a month allows; absent where unlimited.',
      () => allowance.limits().eventsPerMonth,
    ),
    gauge(
      'tracectl_quota_hour_bytes',
      'Payload bytes of this hour that were accepted or are on their way.',
      () => used()?.hour.bytes,
    ),
    gauge(
      'tracectl_quota_hour_bytes_limit',
      'Payload bytes that an hour allows; absent where unlimited.',
      () => allowance.limits().bytesPerHour,
    ),
  ];
  return {
    health: () => healthOf(used(), allowance),
    close() {
      for (const remove of removers) remove();
    },
  };
}

/** Being over a limit is the client's affair: the process stays ready. */
function healthOf(used: UsageInForce | undefined, allowance: Allowance): ComponentHealth {
  const { eventsPerMonth, bytesPerHour } = allowance.limits();
  if (used === undefined) return {};
  const { month, hour } = used;
  const isMonthOver = eventsPerMonth !== null && month.events >= eventsPerMonth;
  const isHourOver = bytesPerHour !== null && hour.bytes >= bytesPerHour;
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
    },
  };
}

/** Reports cannot wait: where the counters are elsewhere, they show what was read the time before. */
function lastRead(
  read: () => UsageInForce | Promise<UsageInForce>,
): () => UsageInForce | undefined {
  let last: UsageInForce | undefined;
  return () => {
    const answer = read();
    if (!(answer instanceof Promise)) {
      last = answer;
      return last;
    }
    answer.then(
      (found) => {
        last = found;
      },
      // The next report asks again; until then the last answer stands.
      () => {},
    );
    return last;
  };
}
