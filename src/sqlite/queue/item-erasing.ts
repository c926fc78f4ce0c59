import type { Steps } from '../../component/background.ts';
import type { ItemErasing } from '../../queue/queue.ts';
import { batchOf, RECORD } from '../../queue/record.ts';
import type { Database } from '../database.ts';
import type { LargeBodies } from './large-bodies.ts';
import type { QueueOperations } from './operations.ts';
import { sweepParts } from './project-removal.ts';
import type { ShrunkBatch } from './removal-operations.ts';
import type { WaitingPage, WaitingPlace } from './shrinking.ts';

export type ErasingFile = {
  readonly database: Database<QueueOperations>;
  readonly largeBodies: LargeBodies;
  /** The queues of the file follow. */
  shrink(shrunk: ShrunkBatch): void;
};

/** Cuts erased items out of the batches that wait in a directory of queues. */
export async function* eraseItems(file: ErasingFile, erasing: ItemErasing): Steps {
  const { database } = file;
  const { projectId, until } = erasing;
  let place: WaitingPlace | null = null;
  do {
    const step: WaitingPage = await database.search('queue.waiting', [projectId, until, place]);
    for (const seq of step.found) {
      await eraseIn(file, erasing, seq);
      yield;
    }
    place = step.next;
    yield;
  } while (place !== null);
}

/** Removes the cut items from the files. Delivered batches are in free pages, which go back to the disk. */
export async function* sweepErased(database: Database<QueueOperations>): Steps {
  yield* sweepParts(database);
  while (await database.write('queue.returnPages', [])) yield;
  while (!(await database.truncateLog())) yield;
}

async function eraseIn(
  { database, largeBodies, shrink }: ErasingFile,
  erasing: ItemErasing,
  seq: number,
): Promise<void> {
  const [read] = await database.search('queue.bodies', [[seq]]);
  // A damaged entry is quarantined when it is leased.
  if (read === undefined || 'damage' in read) return;
  const rest = await erasing.rest(batchOf(read.record));
  if (rest === undefined) return;
  await largeBodies.store(rest, async (record, parts) => {
    const weight = record[RECORD.BODY].byteLength;
    const shrunk = await database.write('queue.rewrite', [seq, record, parts], { weight });
    if (shrunk !== null) shrink(shrunk);
  });
}
