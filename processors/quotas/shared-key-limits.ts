import { randomUUID } from 'node:crypto';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { EdgeConfig } from './config.ts';
import type { KeyLimits } from './edge-limits.ts';
import { IN_FLIGHT_RETRY_MS } from './edge-limits.ts';
import { callsByName } from './grouping.ts';
import { keyReleases } from './key-releases.ts';
import type { KeyName, RunScript } from './scripts.ts';
import { ADMIT_KEY } from './scripts.ts';

/** The requests of a dead process count for this long, which is longer than any request takes. */
const MAX_IN_FLIGHT_MS = 120_000;
/** Requests of one script. */
const MAX_ADMITTED = 256;
/** The answer of the script for a request beyond the maximum in flight. */
const TOO_MANY = -1;

/** Counts over all replicas, by the clock of Redis. */
export function sharedKeyLimits(
  config: EdgeConfig,
  options: {
    readonly run: RunScript;
    readonly key: KeyName;
    readonly clock: Clock;
    readonly logger: Logger;
  },
): KeyLimits {
  const { run, key } = options;
  const { requests_per_second: perSecond, max_in_flight: maxInFlight } = config;
  const interval = perSecond === undefined ? 0 : Math.round(1e6 / perSecond);
  const burst = config.burst ?? Math.ceil(2 * (perSecond ?? 1));
  const tolerance = interval * (burst - 1);
  const isLimited = perSecond !== undefined || maxInFlight !== undefined;
  const releases = keyReleases(MAX_IN_FLIGHT_MS, options);

  const admit = callsByName<string, number>(MAX_ADMITTED, async (keyId, requestIds) => {
    const keys = [key(keyId, 'rate'), key(keyId, 'in-flight')];
    const limits = [interval, tolerance, maxInFlight ?? 0, MAX_IN_FLIGHT_MS];
    return (await run(ADMIT_KEY, keys, [...limits, ...requestIds])) as number[];
  });

  /** A request whose answer was lost may count in Redis, although it is refused. */
  async function admitOrRelease(keyId: string, requestId: string): Promise<number> {
    try {
      return await admit(keyId, requestId);
    } catch (error) {
      if (maxInFlight !== undefined) releases.add(keyId, requestId);
      throw error;
    }
  }

  return {
    async admit(keyId) {
      if (!isLimited) return { admitted: true, release: undefined };
      const requestId = randomUUID();
      const answer = await admitOrRelease(keyId, requestId);
      if (answer === TOO_MANY) {
        return { admitted: false, limit: 'in_flight', retryAfterMs: IN_FLIGHT_RETRY_MS };
      }
      if (answer > 0)
        return { admitted: false, limit: 'request_rate', retryAfterMs: answer / 1000 };
      if (maxInFlight === undefined) return { admitted: true, release: undefined };
      return { admitted: true, release: () => releases.add(keyId, requestId) };
    },
    close: releases.close,
  };
}
