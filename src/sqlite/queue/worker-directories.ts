import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Worker } from '../../component/component.ts';
import { assertUnused } from '../directory.ts';
import { fileVersion } from '../migrate.ts';
import { cell } from '../rows.ts';
import { QUEUE_MIGRATIONS } from './migrations/index.ts';

/** The name of the files of a directory of queues, without their endings. */
export const QUEUE_FILES = 'queue';

export type WorkerDirectories = {
  readonly own: string;
  /** Directories of former workers that hold entries or dead letters. */
  readonly leftovers: readonly string[];
};

/**
 * The directory of a worker's queues, and those that it takes over from a daemon with another number of workers. A
 * single process keeps its queues in the directory itself, one of several in `worker-1`, `worker-2` …. Each leftover
 * falls to one worker, so that no two open the same. Rejects if a leftover is in use.
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
    if (holdsEntries(join(leftover, `${QUEUE_FILES}.db`))) leftovers.push(leftover);
  }
  return { own: pathOf(directory, isAlone ? 0 : worker.index), leftovers };
}

/** Every directory with queues: the directory itself, and those of workers in it. */
export async function queueDirectories(directory: string): Promise<string[]> {
  return (await numbersIn(directory)).map((number) => pathOf(directory, number));
}

/** The numbers of the workers that have used the directory; 0 stands for a single process. */
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

/** A directory that does not exist is empty here; `ensureDirectory` decides whether it must exist. */
function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => []);
}

function heirOf(number: number, count: number): number {
  return number === 0 ? 1 : ((number - 1) % count) + 1;
}

function pathOf(directory: string, number: number): string {
  return number === 0 ? directory : join(directory, `worker-${number}`);
}

/**
 * False only if the file certainly holds no entry and no dead letter. A damaged file, or one of a newer version, is
 * opened.
 */
function holdsEntries(file: string): boolean {
  try {
    const db = new DatabaseSync(file, { readOnly: true });
    try {
      if (fileVersion(db) > QUEUE_MIGRATIONS.length) return true;
      const isAny = cell<number>(
        db,
        'SELECT EXISTS (SELECT 1 FROM queue_pending) OR EXISTS (SELECT 1 FROM dead_letters)',
      );
      return isAny() !== 0;
    } finally {
      db.close();
    }
  } catch {
    return true;
  }
}
