import type { Clock } from '../../src/component/component.ts';
import type { EdgeConfig } from './config.ts';
import { tokenBuckets } from './token-buckets.ts';

/** Why a key has to wait, and for how many milliseconds. */
export type KeyVerdict =
  | { readonly admitted: true; readonly release: (() => void) | undefined }
  | {
      readonly admitted: false;
      readonly limit: 'request_rate' | 'in_flight';
      readonly retryAfterMs: number;
    };

/** Requests of each key: how many under way, and how many in a second. */
export type KeyLimits = {
  admit(keyId: string): KeyVerdict | Promise<KeyVerdict>;
  close(): Promise<void>;
};

const IN_FLIGHT_RETRY_MS = 1000;
const ADMITTED: KeyVerdict = { admitted: true, release: undefined };

export function keyLimits(config: EdgeConfig, clock: Clock): KeyLimits {
  const { requests_per_second: perSecond, max_in_flight: maxInFlight, max_keys: maxNames } = config;
  const rate =
    perSecond === undefined
      ? undefined
      : tokenBuckets(
          { perSecond, burst: config.burst ?? Math.ceil(2 * perSecond), maxNames },
          clock,
        );
  /** Only keys with requests under way are in it: the connections bound it. */
  const inFlight = new Map<string, number>();

  function release(keyId: string): void {
    const left = (inFlight.get(keyId) ?? 0) - 1;
    if (left > 0) inFlight.set(keyId, left);
    else inFlight.delete(keyId);
  }

  return {
    admit(keyId) {
      const underWay = maxInFlight === undefined ? 0 : (inFlight.get(keyId) ?? 0);
      if (maxInFlight !== undefined && underWay >= maxInFlight) {
        return { admitted: false, limit: 'in_flight', retryAfterMs: IN_FLIGHT_RETRY_MS };
      }
      const wait = rate?.take(keyId) ?? 0;
      if (wait > 0) return { admitted: false, limit: 'request_rate', retryAfterMs: wait };
      if (maxInFlight === undefined) return ADMITTED;
      inFlight.set(keyId, underWay + 1);
      return { admitted: true, release: () => release(keyId) };
    },
    async close() {},
  };
}
