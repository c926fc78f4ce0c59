import type { Steps } from '../../../src/component/background.ts';
import { batchOf, RECORD } from '../../../src/queue/record.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type { SqliteQueueStorage } from '../../../src/sqlite/queue/storage.ts';
import type { RemovalCounters } from '../../../src/store/removals.ts';
import type { StoreOperations } from '../operations.ts';
import type { ExpiredPart, ExpiredStep } from './expired-operations.ts';

/** How often a batch is looked at that changes while it is cut. */
const ATTEMPTS = 3;

type ExpiredItemsParts = {
  readonly database: Database<StoreOperations>;
  readonly queues: SqliteQueueStorage;
  readonly removed: RemovalCounters;
};

/**
 * Cuts the items of expired traces out of the batches that other traces keep, of one project or of all (null). Erasures call it too,
 * one after the other, so that no batch is cut in two ways at once.
 */
export async function* cutExpired(parts: ExpiredItemsParts, project: string | null): Steps {
  const { database } = parts;
  let attempts = 0;
  for (let after: number | null = 0; after !== null; ) {
    const { done, found, next }: ExpiredStep = await database.search('expired.look', [
      project,
      after,
    ]);
    if (done.length > 0) await database.write('expired.done', [done]);
    const changed: ExpiredPart | null = found !== null && !(await cut(parts, found)) ? found : null;
    attempts = changed === null ? 0 : attempts + 1;
    after = changed !== null && attempts < ATTEMPTS ? changed.seq - 1 : next;
    yield;
  }
}

/** Resolves with false if the batch or its traces changed since it was looked at. */
async function cut(
  { database, queues, removed }: ExpiredItemsParts,
  part: ExpiredPart,
): Promise<boolean> {
  const isCut = await queues.largeBodies.store(batchOf(part.record), async (record, parts) => {
    const weight = record[RECORD.BODY].byteLength;
    const shrunk = await database.write('expired.cut', [{ ...part, record }, parts], { weight });
    if (shrunk === null) return false;
    queues.shrink(shrunk);
    removed('retention')({ bytes: part.freed });
    return true;
  });
  // Of a deleted project nothing is left to cut.
  return isCut ?? true;
}
