import type { Clock, Labels, Metrics } from '../../src/component/component.ts';
import { Refusal } from '../../src/model/errors.ts';
import type { QuotaVerdict } from '../../src/tenancy/contract.ts';
import type { KeyVerdict } from './edge-limits.ts';

/** The values of the counter's label `limit`. */
const LIMITS = [
  'monthly_events',
  'hourly_bytes',
  'request_bytes',
  'request_rate',
  'in_flight',
  'failed_authentications',
] as const;
type Limit = (typeof LIMITS)[number];

type Exhausted = Extract<QuotaVerdict, { admitted: false }>;
type Limited = Extract<KeyVerdict, { admitted: false }>;

/** Makes the refusals of requests over a limit, and counts them by limit. */
export type Refusals = {
  /** The limit of a window is used up, whatever the request has. */
  usedUp(verdict: Exhausted): Refusal;
  /** The limit of a window has no room for the request. */
  noRoom(verdict: Exhausted): Refusal;
  key(verdict: Limited): Refusal;
  address(retryAfterMs: number): Refusal;
};

const USED_UP = {
  events: 'The events of this month are used up',
  bytes: 'The bytes of this hour are used up',
};
const NO_ROOM = {
  events: 'This request has more events than are left this month',
  bytes: 'This request has more bytes than are left this hour',
};

/** Retry-After is at least 1 s even if the clock jumps. */
const MIN_RETRY_MS = 1000;

export function refusals(metrics: Metrics, clock: Clock): Refusals {
  const counter = metrics.counter(
    'tracectl_quota_refusals_total',
    'Requests refused by a limit, by limit.',
  );
  const labels = Object.fromEntries(LIMITS.map((limit) => [limit, { limit }]));
  const count = (limit: Limit): void => counter.add(1, labels[limit] as Labels);

  function quota({ code, resetsAt, scope }: Exhausted, reason: typeof USED_UP): Refusal {
    const ofProject = scope === undefined ? '' : ' for this project';
    const retryAfterMs = Math.max(MIN_RETRY_MS, resetsAt - clock.now());
    const resets = new Date(resetsAt).toISOString();
    switch (code) {
      case 'monthly_limit': {
        count('monthly_events');
        const message = `${reason.events}${ofProject}; the next month begins ${resets}.`;
        return new Refusal(code, message, { retryAfterMs });
      }
      case 'hourly_limit': {
        count('hourly_bytes');
        const message = `${reason.bytes}${ofProject}; the next hour begins ${resets}.`;
        return new Refusal(code, message, { retryAfterMs, hourlyIngestResetAt: resets });
      }
      case 'exceeds_hourly_limit':
        count('request_bytes');
        return new Refusal(
          code,
          `This request has more bytes than an hour allows${ofProject}. Send smaller requests.`,
        );
    }
  }

  return {
    usedUp: (verdict) => quota(verdict, USED_UP),
    noRoom: (verdict) => quota(verdict, NO_ROOM),
    key({ limit, retryAfterMs }) {
      count(limit);
      const message =
        limit === 'in_flight'
          ? 'Too many requests of this key are in flight. Retry after the time in Retry-After.'
          : 'Too many requests with this key. Retry after the time in Retry-After.';
      return new Refusal('rate_limited', message, { retryAfterMs });
    },
    address(retryAfterMs) {
      count('failed_authentications');
      return new Refusal(
        'rate_limited',
        'Too many requests from this address had no valid key. Retry after the time in Retry-After.',
        { retryAfterMs },
      );
    },
  };
}
