import type { Steps } from '../../component/background.ts';
import type { Database } from '../database.ts';
import type { RemovedBatch } from './removal-operations.ts';

/** Bodies that one step removes: every byte is overwritten, so this is written too. */
const STEP_BYTES = 1024 * 1024;
const STEP_BATCHES = 100;

/**
 * Takes every batch of a project out of a file, with all that waits or is dead of it. `operation` removes the
 * batches with the numbers it is given; `onRemoved` is told of each step.
 */
export async function* removeBatches(
  database: Database,
  project: string,
  operation: string,
  onRemoved: (removed: readonly RemovedBatch[]) => void,
): Steps {
  let after: number | null = 0;
  while (after !== null) {
    const page = await database.search('removal.walk', [project, after]);
    const [found, next] = page as [[seq: number, bytes: number][], number | null];
    for (const seqs of portions(found)) {
      onRemoved((await database.write(operation, [seqs])) as RemovedBatch[]);
      yield;
    }
    after = next;
    yield;
  }
}

function portions(found: readonly [seq: number, bytes: number][]): number[][] {
  const all: number[][] = [];
  let portion: number[] = [];
  let size = 0;
  for (const [seq, bytes] of found) {
    if (portion.length === STEP_BATCHES || (portion.length > 0 && size + bytes > STEP_BYTES)) {
      all.push(portion);
      portion = [];
      size = 0;
    }
    portion.push(seq);
    size += bytes;
  }
  if (portion.length > 0) all.push(portion);
  return all;
}

/** Overwrites, part by part, what large bodies left; a project's, when nobody writes any more of it. */
export async function* sweepParts(database: Database, isWriting = () => false): Steps {
  for (;;) {
    const wasWriting = isWriting();
    const hasMore = await database.write('parts.sweep', []);
    if (hasMore !== true && !wasWriting) return;
    yield;
  }
}

/** Takes the kept answers of a project out of a file. */
export async function* removeAnswers(database: Database, project: string): Steps {
  let after: Uint8Array | null = new Uint8Array(0);
  while (after !== null) {
    const page = await database.search('removal.answersOf', [project, after]);
    const [found, next] = page as [Uint8Array[], Uint8Array | null];
    if (found.length > 0) await database.write('removal.answers', [found]);
    after = next;
    yield;
  }
}
