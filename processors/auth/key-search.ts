import type { Clock } from '../../src/component/component.ts';
import type { KeyStore } from '../../src/tenancy/contract.ts';

/**
 * Asks the store about hashes that this process does not know, many in one query. A flood of unknown keys costs a
 * bounded rate of queries, and a key that another process has just created is found by its first request.
 */
export type KeySearch = {
  /** True if an active key has this hash (base64). The query begins after the call. Rejects if the store does. */
  isActive(digest: string): Promise<boolean>;
  /** Answers what still waits without pauses. */
  close(): void;
};

/** One query at a time, and one in this time. */
const PAUSE_MS = 50;
/** Hashes of a query. The others wait for the next one. */
const MAX_HASHES = 1_000;
const HASH_BYTES = 32;

export function keySearch(keys: Pick<KeyStore, 'activeHashes'>, clock: Clock): KeySearch {
  const waiting = new Map<string, PromiseWithResolvers<boolean>>();
  let isRunning = false;
  let isClosed = false;
  let endPause = (): void => {};

  async function run(): Promise<void> {
    isRunning = true;
    while (waiting.size > 0) {
      const pause = Promise.withResolvers<void>();
      const cancel = clock.after(PAUSE_MS, pause.resolve);
      endPause = pause.resolve;
      if (isClosed) endPause();
      await ask([...waiting.keys()].slice(0, MAX_HASHES));
      await pause.promise;
      cancel();
    }
    isRunning = false;
  }

  async function ask(digests: readonly string[]): Promise<void> {
    // A request that arrives during the query waits for the next one.
    const answers = digests.map((digest) => [digest, waiting.get(digest)] as const);
    for (const digest of digests) waiting.delete(digest);
    try {
      const hashes = digests.map((digest) => Buffer.from(digest, 'base64'));
      const active = digestsIn(await keys.activeHashes(hashes));
      for (const [digest, answer] of answers) answer?.resolve(active.has(digest));
    } catch (error) {
      for (const [, answer] of answers) answer?.reject(error);
    }
  }

  return {
    isActive(digest) {
      const known = waiting.get(digest);
      if (known !== undefined) return known.promise;
      const answer = Promise.withResolvers<boolean>();
      waiting.set(digest, answer);
      if (!isRunning) void run();
      return answer.promise;
    },
    close() {
      isClosed = true;
      endPause();
    },
  };
}

function digestsIn(sorted: Uint8Array): Set<string> {
  const hashes = Buffer.from(sorted.buffer, sorted.byteOffset, sorted.byteLength);
  const digests = new Set<string>();
  for (let at = 0; at < hashes.length; at += HASH_BYTES) {
    digests.add(hashes.toString('base64', at, at + HASH_BYTES));
  }
  return digests;
}
