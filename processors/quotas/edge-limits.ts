import type { Clock } from '../../src/component/component.ts';
import { tokenBuckets } from '../../src/component/token-buckets.ts';
import { clientNetwork } from '../../src/net/network.ts';
import type { EdgeConfig } from './config.ts';

/**
 * Limits the failed authentications of each network. Requests with a valid key are not limited, because clients
 * behind one proxy share an address.
 */
type AddressLimits = {
  /** Counts a failure. Returns 0, or the milliseconds to wait if the network exceeds its limit. */
  failed(remoteAddress: string): number;
};

export function addressLimits(
  config: EdgeConfig['failed_authentications'],
  clock: Clock,
): AddressLimits {
  const { per_minute: perMinute, burst, max_addresses: maxNames } = config;
  const failures = tokenBuckets({ perSecond: perMinute / 60, burst, maxNames }, clock);
  return { failed: (address) => failures.take(clientNetwork(address)) };
}

export type KeyVerdict =
  | { readonly admitted: true; readonly release: (() => void) | undefined }
  | {
      readonly admitted: false;
      readonly limit: 'request_rate' | 'in_flight';
      readonly retryAfterMs: number;
    };

/** Limits the requests of each key, by rate and in flight. */
export type KeyLimits = {
  admit(keyId: string): KeyVerdict | Promise<KeyVerdict>;
  close(): Promise<void>;
};

export const IN_FLIGHT_RETRY_MS = 1000;
const ADMITTED: KeyVerdict = { admitted: true, release: undefined };

/** Counts in this process only. */
export function keyLimits(config: EdgeConfig, clock: Clock): KeyLimits {
  const { requests_per_second: perSecond, max_in_flight: maxInFlight, max_keys: maxNames } = config;
  const rate =
    perSecond === undefined
      ? undefined
      : tokenBuckets(
          { perSecond, burst: config.burst ?? Math.ceil(2 * perSecond), maxNames },
          clock,
        );
  /** Only keys with requests in flight, so the number of connections bounds the map. */
  const inFlight = new Map<string, number>();

  function release(keyId: string): void {
    const left = (inFlight.get(keyId) ?? 0) - 1;
    if (left > 0) inFlight.set(keyId, left);
    else inFlight.delete(keyId);
  }

  return {
    admit(keyId) {
      const known = maxInFlight === undefined ? 0 : (inFlight.get(keyId) ?? 0);
      if (maxInFlight !== undefined && known >= maxInFlight) {
        return { admitted: false, limit: 'in_flight', retryAfterMs: IN_FLIGHT_RETRY_MS };
      }
      const wait = rate?.take(keyId) ?? 0;
      if (wait > 0) return { admitted: false, limit: 'request_rate', retryAfterMs: wait };
      if (maxInFlight === undefined) return ADMITTED;
      inFlight.set(keyId, known + 1);
      return { admitted: true, release: () => release(keyId) };
    },
    async close() {},
  };
}
