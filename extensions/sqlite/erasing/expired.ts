import type { Steps } from '../../../src/component/background.ts';
import { batchOf, RECORD, recordOf } from '../../../src/queue/record.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type { WrittenParts } from '../../../src/sqlite/queue/part-operations.ts';
import type { SqliteQueueStorage } from '../../../src/sqlite/queue/storage.ts';
import type { StoreOperations } from '../operations.ts';
import type { RemovedCounters } from '../removed-counters.ts';
import type { ExpiredPart, ExpiredStep } from './expired-operations.ts';

const NO_BYTES = new Uint8Array(0);

type ExpiredItemsParts = {
  readonly database: Database<StoreOperations>;
  readonly queues: SqliteQueueStorage;
  readonly removed: RemovedCounters;
};

/**
 * Cuts the items of expired traces out of the batches that other traces keep, of one project or of all (null). Erasures call it too,
 * one after the other, so that no batch is cut in two ways at once.
 */
export async function* cutExpired(parts: ExpiredItemsParts, project: string | null): Steps {
  const { database } = parts;
  for (let after: number | null = 0; after !== null; ) {
    const { done, found, next }: ExpiredStep = await database.search('expired.look', [
      project,
      after,
    ]);
    if (done.length > 0) await database.write('expired.done', [done]);
    if (found !== null) await cut(parts, found);
    after = next;
    yield;
  }
}

async function cut(
  { database, queues, removed }: ExpiredItemsParts,
  part: ExpiredPart,
): Promise<void> {
  const { largeBodies } = queues;
  const rest = batchOf(part.record);
  let written: WrittenParts | null = null;
  try {
    const isLarge = largeBodies.isLarge(rest);
    if (isLarge) written = await largeBodies.write(rest);
    // The project was deleted.
    if (isLarge && written === null) return;
    const record = written === null ? part.record : recordOf(rest, NO_BYTES);
    const shrunk = await database.write('expired.cut', [{ ...part, record }, written], {
      weight: record[RECORD.BODY].byteLength,
    });
    if (shrunk === null) return;
    queues.shrink(shrunk);
    removed.add('bytes', part.freed, 'retention');
  } finally {
    if (written !== null) await largeBodies.end(rest.tenant.projectId, written.numbers);
  }
}
