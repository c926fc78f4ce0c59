import type { Clock, Logger } from '../../../src/component/component.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { StoreDatabase } from '../database.ts';

/** Milliseconds until failed releases are repeated. */
const REPEAT_MS = 1000;
/** Claims whose release is repeated; those above the bound expire. */
const MAX_UNRELEASED = 10_000;

/** $1 hashes, $2 claims. Spares a claim that has an answer. */
const RELEASE = `
  DELETE FROM idempotency i USING unnest($1::bytea[], $2::text[]) AS r (hash, claim)
  WHERE i.hash = r.hash AND i.claim = r.claim AND i.status IS NULL`;

/** Releases claims of this process; while it lives, no other process takes them over. */
export type ClaimReleases = {
  /** Deletes a claim unless an answer was kept in it. Repeated while the database is away. */
  release(hash: Buffer, claim: string): void;
  /** Gives up the releases that failed: the claims of a process that has ended count as none. */
  close(): void;
};

export function claimReleases(
  database: StoreDatabase,
  clock: Clock,
  logger: Logger,
): ClaimReleases {
  /** Hashes of the claims whose release failed. */
  const unreleased = new Map<string, Buffer>();
  let cancel: (() => void) | undefined;
  let isClosed = false;

  async function releaseAll(claims: ReadonlyMap<string, Buffer>): Promise<void> {
    try {
      await database.query(RELEASE, [[...claims.values()], [...claims.keys()]]);
    } catch (error) {
      if (error instanceof RetryableError) repeatLater(claims, error);
      else logger.warn({ err: error }, 'Idempotency claim could not be released; it expires');
    }
  }

  function repeatLater(claims: ReadonlyMap<string, Buffer>, error: RetryableError): void {
    if (isClosed) return;
    for (const [claim, hash] of claims) {
      if (unreleased.size < MAX_UNRELEASED) unreleased.set(claim, hash);
    }
    if (cancel !== undefined) return;
    logger.warn({ err: error }, 'Idempotency claims could not be released; repeated');
    cancel = clock.after(REPEAT_MS, () => {
      cancel = undefined;
      const due = new Map(unreleased);
      unreleased.clear();
      void releaseAll(due);
    });
  }

  return {
    release: (hash, claim) => void releaseAll(new Map([[claim, hash]])),
    close() {
      isClosed = true;
      cancel?.();
      unreleased.clear();
    },
  };
}
