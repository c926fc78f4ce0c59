import type { DatabaseSync } from 'node:sqlite';
import type { Clock, Logger } from '../component/component.ts';

/** Operations that every writing thread has, beside those of its file. */
export const SHRINK = 'sqlite.shrink';
/** Answered after the commit: inside a transaction the log cannot be truncated. */
export const TRUNCATE_LOG = 'sqlite.truncate_log';

/** Writes a page, to find whether the file takes writes. */
export const PROBE = 'sqlite.probe';
/** An operation of reading threads: reads what every request needs, to find whether the disk reads the file. */
export const READ_PROBE = 'sqlite.read_probe';

/** Free pages of 8 KiB that stay in the file for later growth, and the pages that one step gives back. */
const KEPT_PAGES = 4096;
const STEP_PAGES = 512;
/** The interval of looking for free pages, and the pause between two steps. */
const LOOK_MS = 10 * 60_000;
const STEP_MS = 500;

/** Returns an operation that gives some free pages back to the disk, and returns whether many are left. */
export function shrinkOperation(db: DatabaseSync): () => boolean {
  const freePages = db.prepare('PRAGMA freelist_count');
  return () => {
    const free = Number(freePages.get()?.freelist_count);
    if (free <= KEPT_PAGES) return false;
    returnPages(db);
    return free > KEPT_PAGES + STEP_PAGES;
  };
}

/** Returns an operation that writes the page of the header, unchanged. */
export function probeOperation(db: DatabaseSync): () => void {
  const version = db.prepare('PRAGMA user_version');
  return () => db.exec(`PRAGMA user_version = ${Number(version.get()?.user_version)}`);
}

/** Returns an operation that reads the tables without which the file must not be used. */
export function readProbeOperation(db: DatabaseSync, essential: readonly string[]): () => void {
  return () => {
    for (const table of ['sqlite_schema', ...essential]) {
      // SQLite would count the smallest index, which no request may need.
      db.prepare(`SELECT count(*) FROM ${table} NOT INDEXED`).get();
    }
  };
}

export function returnPages(db: DatabaseSync): void {
  db.exec(`PRAGMA incremental_vacuum(${STEP_PAGES})`);
}

/**
 * Moves the log into the file and truncates it, so that the log holds no deleted data. Returns whether the log is
 * empty: it never waits for readers, and a reader that still needs the log keeps it.
 */
export function truncateLog(db: DatabaseSync): boolean {
  db.exec('PRAGMA busy_timeout = 0');
  try {
    return db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0;
  } finally {
    db.exec('PRAGMA busy_timeout = 5000');
  }
}

/**
 * Shrinks the file in small steps after a backlog, so that no other call waits long behind a step. The returned
 * function ends it.
 */
export function keepShrinking(
  step: () => Promise<unknown>,
  clock: Clock,
  logger: Logger,
): () => void {
  let isEnded = false;
  let cancel = clock.after(LOOK_MS, shrink);

  function shrink(): void {
    step().then(next, (err: unknown) => {
      if (!isEnded) logger.warn({ err }, 'Database file could not be shrunk');
      next(false);
    });
  }

  function next(hasMore: unknown): void {
    if (!isEnded) cancel = clock.after(hasMore === true ? STEP_MS : LOOK_MS, shrink);
  }

  return () => {
    isEnded = true;
    cancel();
  };
}
