import type { Clock, Logger } from '../../src/component/component.ts';
import { LruCache } from '../../src/component/lru.ts';
import type { ApiKey, KeyStore } from '../../src/tenancy/contract.ts';
import { keyHashes } from './key-hashes.ts';
import { keySearch } from './key-search.ts';

/**
 * Keys by the hash of their token, so that a known key needs no query of the store.
 *
 *   find(hash) ─▶ cached and fresh? ─▶ the key, synchronously
 *                      └─ no ─▶ among the hashes of all keys? ─ no ─▶ searched with others ─ no ─▶ unknown
 *                                   └─ yes ─▶ one query of the store per hash ◀── yes ──┘
 *                                                 └▶ cached for `ttl`
 *   store.onChange(key) ─▶ evicted at once
 */
export type KeyCache = {
  /** The key, if it is cached and fresh. */
  known(digest: string): ApiKey | undefined;
  /** `digest` is the base64 SHA-256 of a token. Rejects if the store does. */
  find(digest: string): ApiKey | undefined | Promise<ApiKey | undefined>;
  close(): void;
};

const MAX_ENTRIES = 10_000;
/** A key that was removed is cached briefly. */
const UNKNOWN_TTL_MS = 1_000;
/** A key that changes this often during its lookup is not cached. */
const MAX_LOOKUPS = 3;

type Entry = { readonly key: ApiKey | undefined; readonly freshUntil: number };

/** `ttl` in milliseconds. */
export function cacheKeys(keys: KeyStore, clock: Clock, logger: Logger, ttl: number): KeyCache {
  const entries = new LruCache<string, Entry>({ maxEntries: MAX_ENTRIES });
  const lookups = new Map<string, Promise<ApiKey | undefined>>();
  const hashes = keyHashes(keys, clock, logger);
  const search = keySearch(keys, clock);
  let changes = 0;

  const stopListening = keys.onChange((keyId) => {
    changes++;
    hashes.changed();
    entries.deleteWhere(({ key }) => key === undefined || keyId === undefined || key.id === keyId);
  });

  /** Unknown keys are not cached: a flood of them would evict the known ones. */
  async function searchAndLookUp(digest: string): Promise<ApiKey | undefined> {
    return (await search.isActive(digest)) ? lookUp(digest) : undefined;
  }

  async function lookUp(digest: string): Promise<ApiKey | undefined> {
    for (let i = 1; ; i++) {
      const before = changes;
      const key = await keys.findByHash(Buffer.from(digest, 'base64'));
      if (changes === before) {
        remember(digest, key);
        return key;
      }
      // A key changed during the lookup: the result may predate a revocation.
      if (i === MAX_LOOKUPS) return key;
    }
  }

  function remember(digest: string, key: ApiKey | undefined): void {
    const lifetime = key === undefined ? Math.min(ttl, UNKNOWN_TTL_MS) : ttl;
    if (lifetime === 0) return;
    entries.set(digest, { key, freshUntil: clock.now() + lifetime });
  }

  function freshEntry(digest: string): Entry | undefined {
    const entry = entries.get(digest);
    if (entry === undefined || clock.now() < entry.freshUntil) return entry;
    entries.delete(digest);
    return undefined;
  }

  return {
    known: (digest) => freshEntry(digest)?.key,
    find(digest) {
      const entry = freshEntry(digest);
      if (entry !== undefined) return entry.key;
      const running = lookups.get(digest);
      if (running !== undefined) return running;
      const found = hashes.includes(digest) ? lookUp(digest) : searchAndLookUp(digest);
      const lookup = found.finally(() => lookups.delete(digest));
      lookups.set(digest, lookup);
      return lookup;
    },
    close() {
      stopListening();
      search.close();
      hashes.close();
    },
  };
}
