import type { DatabaseSync } from 'node:sqlite';
import type { Clock, Logger } from '../component/component.ts';
import type { Operation } from './operation.ts';

/** Free pages of 8 KiB that stay in the file for what comes next, and those given back in one step. */
const KEPT_PAGES = 4096;
const STEP_PAGES = 512;
/** How often the file is looked at, and how long after one step the next comes. */
const LOOK_MS = 10 * 60_000;
const STEP_MS = 500;

export const SHRINK = 'sqlite.shrink';

/** Gives some free pages back to the disk; returns whether many are left. */
export function shrinkOperation(db: DatabaseSync): Operation {
  const freePages = db.prepare('PRAGMA freelist_count');
  return (): boolean => {
    const free = Number(freePages.get()?.freelist_count);
    if (free <= KEPT_PAGES) return false;
    giveBack(db);
    return free > KEPT_PAGES + STEP_PAGES;
  };
}

export function giveBack(db: DatabaseSync): void {
  db.exec(`PRAGMA incremental_vacuum(${STEP_PAGES})`);
}

/**
 * After a backlog the file is larger than what it holds: it shrinks in small steps, so that nobody waits
 * long behind one. The returned function ends it.
 */
export function keepShrinking(
  step: () => Promise<unknown>,
  clock: Clock,
  logger: Logger,
): () => void {
  let isEnded = false;
  let cancel = clock.after(LOOK_MS, shrink);

  function shrink(): void {
    step().then(next, (error: unknown) => {
      if (!isEnded) logger.warn({ error }, 'the file could not be made smaller');
      next(false);
    });
  }

  function next(isMore: unknown): void {
    if (!isEnded) cancel = clock.after(isMore === true ? STEP_MS : LOOK_MS, shrink);
  }

  return () => {
    isEnded = true;
    cancel();
  };
}
