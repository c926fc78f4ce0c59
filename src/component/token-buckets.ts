import type { Clock } from './component.ts';
import { LruCache } from './lru.ts';

/**
 * Token buckets by name: each holds up to `burst` tokens and refills at `perSecond`. A full bucket equals a new one,
 * so the bucket used least recently can be evicted.
 */
type TokenBuckets = {
  /**
   * Takes a token and returns 0, or takes none and returns the milliseconds until there is one. Of several tokens, one has to be there: the
   * bucket then owes the others.
   */
  take(name: string, tokens?: number): number;
  /** Milliseconds until there is a token; 0 if there is one. Does not count as use. */
  wait(name: string): number;
  readonly size: number;
};

type TokenBucketOptions = {
  readonly perSecond: number;
  readonly burst: number;
  readonly maxNames: number;
};

type Bucket = { tokens: number; at: number };

export function tokenBuckets(
  { perSecond, burst, maxNames }: TokenBucketOptions,
  clock: Clock,
): TokenBuckets {
  const perMs = perSecond / 1000;
  const buckets = new LruCache<string, Bucket>({ maxEntries: maxNames });

  function waitOf(bucket: Bucket): number {
    const now = clock.now();
    // A clock that goes back adds no tokens, and refilling goes on from its new time.
    const elapsed = Math.max(0, now - bucket.at);
    bucket.tokens = Math.min(burst, bucket.tokens + elapsed * perMs);
    bucket.at = now;
    return bucket.tokens < 1 ? (1 - bucket.tokens) / perMs : 0;
  }

  function opened(name: string): Bucket {
    const known = buckets.get(name);
    if (known !== undefined) return known;
    const bucket = { tokens: burst, at: clock.now() };
    buckets.set(name, bucket);
    return bucket;
  }

  return {
    take(name, tokens = 1) {
      const bucket = opened(name);
      const wait = waitOf(bucket);
      if (wait === 0) bucket.tokens -= tokens;
      return wait;
    },
    wait(name) {
      const bucket = buckets.peek(name);
      return bucket === undefined ? 0 : waitOf(bucket);
    },
    get size() {
      return buckets.size;
    },
  };
}
