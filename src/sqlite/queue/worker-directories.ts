import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Worker } from '../../component/component.ts';
import { assertUnused } from '../directory.ts';

/** What the files of a directory of queues are named after. */
export const QUEUE_FILES = 'queue';

export type WorkerDirectories = {
  readonly own: string;
  /** Directories of workers that there are no more, in which something waits. */
  readonly leftovers: readonly string[];
};

/**
 * Where a worker keeps its queues, and what it takes over from a daemon that ran with another number of
 * workers. A process alone keeps them in the directory itself, one of several in `worker-1`, `worker-2` ….
 * Each leftover falls to one worker, so that no two want the same. Rejects where one is in use.
 */
export async function workerDirectories(
  directory: string,
  worker: Worker,
): Promise<WorkerDirectories> {
  const isAlone = worker.count === 1;
  const leftovers: string[] = [];
  for (const number of await numbersIn(directory)) {
    const isNeeded = isAlone ? number === 0 : number >= 1 && number <= worker.count;
    if (isNeeded || heirOf(number, worker.count) !== worker.index) continue;
    const leftover = pathOf(directory, number);
    await assertUnused(leftover, QUEUE_FILES);
    if (holdsAnything(join(leftover, `${QUEUE_FILES}.db`))) leftovers.push(leftover);
  }
  return { own: pathOf(directory, isAlone ? 0 : worker.index), leftovers };
}

/** Numbers of workers that have been here; 0 stands for a process alone. */
async function numbersIn(directory: string): Promise<number[]> {
  const names = await namesIn(directory);
  const numbers = names.flatMap((name) => {
    const number = /^worker-([1-9]\d{0,3})$/.exec(name)?.[1];
    return number === undefined ? [] : [Number(number)];
  });
  const found: number[] = [];
  for (const number of [0, ...numbers.sort((a, b) => a - b)]) {
    const files = number === 0 ? names : await namesIn(pathOf(directory, number));
    if (files.includes(`${QUEUE_FILES}.db`)) found.push(number);
  }
  return found;
}

/** Nothing is in a directory that is not there: whether it should be, others say. */
function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => []);
}

function heirOf(number: number, count: number): number {
  return number === 0 ? 1 : ((number - 1) % count) + 1;
}

function pathOf(directory: string, number: number): string {
  return number === 0 ? directory : join(directory, `worker-${number}`);
}

/** False only where it is known that nothing waits and no dead letter is left: a damaged file is opened. */
function holdsAnything(file: string): boolean {
  try {
    const database = new DatabaseSync(file, { readOnly: true });
    try {
      const found = database
        .prepare(
          'SELECT EXISTS (SELECT 1 FROM queue_pending) OR EXISTS (SELECT 1 FROM dead_letters) AS any',
        )
        .get() as { any: number } | undefined;
      return found?.any !== 0;
    } finally {
      database.close();
    }
  } catch {
    return true;
  }
}
