import type { Clock, Logger } from '../../src/component/component.ts';
import type { KeyName, RunScript } from './scripts.ts';
import { RELEASE_KEY } from './scripts.ts';

/** Tells Redis which requests of a key have ended. */
export type KeyReleases = {
  add(keyId: string, requestId: string): void;
  /** Tries once more to release what waits. */
  close(): Promise<void>;
};

type Ended = { readonly keyId: string; readonly requestId: string; readonly at: number };

const RELEASE_MS = 5;
const RETRY_MS = 1000;
const MAX_PER_CALL = 500;
/** Ended requests that wait while Redis fails. Redis forgets those beyond after `keptFor`. */
const MAX_WAITING = 10_000;

/**
 * Requests of one moment are released together. A release that fails is repeated for as long as Redis counts the request
 * (`keptFor`, ms): one lost connection would otherwise use up the places of a key for minutes. Releases that fail wait apart
 * from new ones, which may succeed before.
 */
export function keyReleases(
  keptFor: number,
  options: {
    readonly run: RunScript;
    readonly key: KeyName;
    readonly clock: Clock;
    readonly logger: Logger;
  },
): KeyReleases {
  const { run, key, clock, logger } = options;
  let ended: Ended[] = [];
  let failed: Ended[] = [];
  let isClosed = false;
  let cancelRelease: (() => void) | undefined;
  let cancelRetry: (() => void) | undefined;

  async function releaseEnded(): Promise<void> {
    cancelRelease?.();
    cancelRelease = undefined;
    const all = ended;
    ended = [];
    await releaseAll(all);
  }

  async function retryFailed(): Promise<void> {
    cancelRetry?.();
    cancelRetry = undefined;
    const now = clock.now();
    const all = failed.filter(({ at }) => Math.abs(now - at) < keptFor);
    failed = [];
    await releaseAll(all);
  }

  async function releaseAll(all: readonly Ended[]): Promise<void> {
    const byKey = Map.groupBy(all, ({ keyId }) => keyId);
    await Promise.all([...byKey.values()].map(releaseOfKey));
  }

  async function releaseOfKey(all: readonly Ended[]): Promise<void> {
    for (let i = 0; i < all.length; i += MAX_PER_CALL) {
      const some = all.slice(i, i + MAX_PER_CALL);
      try {
        const names = [key(some[0]?.keyId ?? '', 'in-flight')];
        await run(
          RELEASE_KEY,
          names,
          some.map(({ requestId }) => requestId),
        );
      } catch (error) {
        logger.debug({ err: error }, 'Ended requests could not be released; retried');
        retryLater(all.slice(i));
        return;
      }
    }
  }

  function retryLater(some: readonly Ended[]): void {
    failed = [...failed, ...some].slice(-MAX_WAITING);
    if (!isClosed) cancelRetry ??= clock.after(RETRY_MS, () => void retryFailed());
  }

  return {
    add(keyId, requestId) {
      ended.push({ keyId, requestId, at: clock.now() });
      cancelRelease ??= clock.after(RELEASE_MS, () => void releaseEnded());
    },
    async close() {
      isClosed = true;
      await Promise.all([releaseEnded(), retryFailed()]);
    },
  };
}
