import type { Steps } from '../../component/background.ts';
import type { Database } from '../database.ts';
import type { QueueOperations } from './operations.ts';
import type { BatchSize, RemovedBatch, WalkedPage } from './removal-operations.ts';

/** Bodies that one step removes: every byte is overwritten, so a step also writes as much. */
const STEP_BYTES = 1024 * 1024;
const STEP_BATCHES = 100;

export type ProjectRemoval = {
  /** Removes the data of a project from the file. */
  remove(project: string): Steps;
  /** Removes, after that of all projects, what other files have. */
  finish?(): Steps;
  onPurged?(project: string): void;
};

/**
 * Removes the deleted projects of a file. A project that fails each time, or a log that cannot be truncated yet, holds up the removal of no
 * other project.
 */
export async function* removeDeletedProjects(
  database: Database<QueueOperations>,
  { remove, finish, onPurged }: ProjectRemoval,
): Steps {
  const removed: string[] = [];
  const failures: unknown[] = [];
  for (const project of await database.read('removal.open', [])) {
    try {
      yield* remove(project);
      removed.push(project);
    } catch (error) {
      failures.push(error);
    }
  }
  if (removed.length > 0) {
    if (finish !== undefined) yield* finish();
    // The log holds the pages as they were before the removal.
    while (!(await database.truncateLog())) yield;
  }
  for (const project of removed) {
    await database.write('removal.purged', [project]);
    onPurged?.(project);
  }
  if (failures.length > 0) throw failures[0];
}

/**
 * Removes every batch of a project from a file, with its entries and dead letters. `remove` removes the batches with
 * the numbers that it gets; `onRemoved` is called after each step.
 */
export async function* removeBatches(
  database: Database<QueueOperations>,
  project: string,
  remove: (seqs: readonly number[]) => Promise<readonly RemovedBatch[]>,
  onRemoved: (removed: readonly RemovedBatch[]) => void,
): Steps {
  let after: number | null = 0;
  while (after !== null) {
    const { found, next }: WalkedPage<BatchSize, number> = await database.search('removal.walk', [
      project,
      after,
    ]);
    for (const seqs of portions(found)) {
      onRemoved(await remove(seqs));
      yield;
    }
    after = next;
    yield;
  }
}

function portions(found: readonly BatchSize[]): number[][] {
  const all: number[][] = [];
  let portion: number[] = [];
  let size = 0;
  for (const { seq, bytes } of found) {
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

/** Overwrites the free parts of large bodies; of a project, until none of its bodies is being written. */
export async function* sweepParts(
  database: Database<QueueOperations>,
  isWriting = () => false,
): Steps {
  for (;;) {
    const wasWriting = isWriting();
    const hasMore = await database.write('parts.sweep', []);
    if (!hasMore && !wasWriting) return;
    yield;
  }
}

/** Removes the kept answers of a project from a file, and its recent requests. */
export async function* removeAnswers(database: Database<QueueOperations>, project: string): Steps {
  let from: number | null = 0;
  while (from !== null) {
    const { found, next }: WalkedPage<number, number> = await database.search('recent.ofProject', [
      project,
      from,
    ]);
    if (found.length > 0) await database.write('recent.remove', [found]);
    from = next;
    yield;
  }
  let group: number | null = 0;
  while (group !== null) {
    const { found, next }: WalkedPage<number, number> = await database.search(
      'recent.groupsOfProject',
      [project, group],
    );
    if (found.length > 0) await database.write('recent.removeFromGroups', [project, found]);
    group = next;
    yield;
  }
  let after: Uint8Array | null = new Uint8Array(0);
  while (after !== null) {
    const { found, next }: WalkedPage<Uint8Array, Uint8Array> = await database.search(
      'removal.answersOf',
      [project, after],
    );
    if (found.length > 0) await database.write('removal.answers', [found]);
    after = next;
    yield;
  }
}
