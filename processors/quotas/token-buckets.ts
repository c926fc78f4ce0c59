import type { Clock } from '../../src/component/component.ts';

/**
 * Token buckets by name: each holds up to `burst` tokens and gets `perSecond` new ones. A bucket that is
 * full is no different from one that was never used, so the one used longest ago can be forgotten.
 */
export type TokenBuckets = {
  /** Takes a token: 0, or the milliseconds until there is one, and then none is taken. */
  take(name: string): number;
  /** Milliseconds until there is a token, 0 where there is one. */
  wait(name: string): number;
  readonly size: number;
};

export type BucketOptions = {
  readonly perSecond: number;
  readonly burst: number;
  readonly maxNames: number;
};

type Bucket = { tokens: number; at: number };

export function tokenBuckets(
  { perSecond, burst, maxNames }: BucketOptions,
  clock: Clock,
): TokenBuckets {
  const perMs = perSecond / 1000;
  /** In order of last use. */
  const buckets = new Map<string, Bucket>();

  function refill(bucket: Bucket): void {
    const now = clock.now();
    // A clock that went back gives nothing, and must not stop the refilling until it has caught up.
    const elapsed = Math.max(0, now - bucket.at);
    bucket.tokens = Math.min(burst, bucket.tokens + elapsed * perMs);
    bucket.at = now;
  }

  function forgetOldest(): void {
    for (const name of buckets.keys()) {
      buckets.delete(name);
      return;
    }
  }

  return {
    take(name) {
      let bucket = buckets.get(name);
      if (bucket === undefined) {
        if (buckets.size >= maxNames) forgetOldest();
        bucket = { tokens: burst, at: clock.now() };
      } else {
        buckets.delete(name);
        refill(bucket);
      }
      buckets.set(name, bucket);
      if (bucket.tokens < 1) return (1 - bucket.tokens) / perMs;
      bucket.tokens -= 1;
      return 0;
    },
    wait(name) {
      const bucket = buckets.get(name);
      if (bucket === undefined) return 0;
      refill(bucket);
      return bucket.tokens < 1 ? (1 - bucket.tokens) / perMs : 0;
    },
    get size() {
      return buckets.size;
    },
  };
}
