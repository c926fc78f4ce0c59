import type { Clock, Logger } from '../../src/component/component.ts';
import type { KeyStore } from '../../src/tenancy/contract.ts';

/** The hashes of all active keys as this process read them last, so that most requests need no search for their key. */
export type KeyHashes = {
  /** False also for a key that was created since the last read. */
  includes(digest: string): boolean;
  /** Reads the hashes again. */
  changed(): void;
  close(): void;
};

const HASH_BYTES = 32;
/** A key of another process whose notice was lost is known within this time. */
const RELOAD_MS = 30_000;
const RETRY_MS = 1_000;

export function keyHashes(
  keys: Pick<KeyStore, 'activeHashes'>,
  clock: Clock,
  logger: Logger,
): KeyHashes {
  /** Without separators. */
  let sorted: Buffer = Buffer.alloc(0);
  let changes = 0;
  let isLoading = false;
  let isAway = false;
  let isClosed = false;
  let cancel = (): void => {};

  async function load(): Promise<void> {
    if (isLoading || isClosed) return;
    isLoading = true;
    cancel();
    let next = RELOAD_MS;
    try {
      await read();
      isAway = false;
    } catch (error) {
      next = RETRY_MS;
      if (!isAway) logger.warn({ err: error }, 'Hashes of keys could not be read');
      isAway = true;
    }
    isLoading = false;
    if (!isClosed) cancel = clock.after(next, () => void load());
  }

  /** Repeats while keys change: a read that began before a change may lack the new key. */
  async function read(): Promise<void> {
    let before: number;
    do {
      before = changes;
      const found = Buffer.from(await keys.activeHashes());
      if (before === changes) sorted = found;
    } while (before !== changes && !isClosed);
  }

  void load();
  return {
    includes: (digest) => includes(sorted, Buffer.from(digest, 'base64')),
    changed() {
      changes++;
      void load();
    },
    close() {
      isClosed = true;
      cancel();
    },
  };
}

/** Binary search: 17 comparisons among 100,000 hashes, in 32 bytes each. */
function includes(sorted: Buffer, hash: Buffer): boolean {
  let low = 0;
  let high = sorted.length / HASH_BYTES;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const at = middle * HASH_BYTES;
    const order = hash.compare(sorted, at, at + HASH_BYTES);
    if (order === 0) return true;
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return false;
}
