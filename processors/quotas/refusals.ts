import type { Clock, Labels, Metrics } from '../../src/component/component.ts';
import { Refusal } from '../../src/model/errors.ts';
import type { QuotaVerdict } from '../../src/tenancy/contract.ts';
import type { KeyVerdict } from './edge-limits.ts';

/** What refused: the label of the counter. */
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

/** Makes the answers to those who are over a limit, and counts them by limit. */
export type Refusals = {
  /** `isWhole`: nothing at all is left; else there is no room for this request. */
  quota(verdict: Exhausted, isWhole: boolean): Refusal;
  key(verdict: Limited): Refusal;
  address(retryAfterMs: number): Refusal;
};

/** No client is told to come back in no time, whatever the clock did. */
const SOONEST_MS = 1000;

export function refusals(metrics: Metrics, clock: Clock): Refusals {
  const counter = metrics.counter(
    'tracectl_quota_refusals_total',
    'Requests refused by a limit, by limit.',
  );
  const labels = Object.fromEntries(LIMITS.map((limit) => [limit, { limit }]));
  const count = (limit: Limit): void => counter.add(1, labels[limit] as Labels);

  function quota({ code, resetsAt, scope }: Exhausted, isWhole: boolean): Refusal {
    const inProject = scope === undefined ? '' : ' for this project';
    const retryAfterMs = Math.max(SOONEST_MS, resetsAt - clock.now());
    const resets = new Date(resetsAt).toISOString();
    switch (code) {
      case 'monthly_limit': {
        count('monthly_events');
        const what = isWhole
          ? `The events of this month are used up${inProject}`
          : `This request holds more events than are left this month${inProject}`;
        return new Refusal(code, `${what}; the next month begins ${resets}.`, { retryAfterMs });
      }
      case 'hourly_limit': {
        count('hourly_bytes');
        const what = isWhole
          ? `The bytes of this hour are used up${inProject}`
          : `This request holds more bytes than are left this hour${inProject}`;
        return new Refusal(code, `${what}; the next hour begins ${resets}.`, {
          retryAfterMs,
          hourlyIngestResetAt: resets,
        });
      }
      case 'exceeds_hourly_limit':
        count('request_bytes');
        return new Refusal(
          code,
          `This request alone holds more bytes than an hour allows${inProject}. Send less at a time.`,
        );
    }
  }

  return {
    quota,
    key({ limit, retryAfterMs }) {
      count(limit);
      const message =
        limit === 'in_flight'
          ? 'Too many requests of this key are under way. Try again.'
          : 'Too many requests with this key. Try again.';
      return new Refusal('rate_limited', message, { retryAfterMs });
    },
    address(retryAfterMs) {
      count('failed_authentications');
      return new Refusal(
        'rate_limited',
        'Too many requests from this address had no valid key. Try again later.',
        { retryAfterMs },
      );
    },
  };
}
