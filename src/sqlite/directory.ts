import { constants } from 'node:fs';
import { lstat, open, readFile, rm, statfs } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Clock, Logger } from '../component/component.ts';
import { DirectoryInUseError, isDiskFull, RetryableError } from '../model/errors.ts';
import { ensureDirectory, refuseLinks, unusable } from './directory-guard.ts';
import { identitiesOf, movedOf } from './file-identity.ts';
import {
  RESERVE_ENDINGS,
  removeUnfinishedReserve,
  reserveExists,
  reserveFilling,
} from './reserve.ts';
import { errcodeOf, isBusy } from './result-code.ts';
import { SALVAGE_ENDINGS } from './salvage.ts';

/** Endings of every file that a database has in its directory. */
const ENDINGS = [
  ...['.lock', '.pid', '.filled', ...RESERVE_ENDINGS.map((ending) => `.reserve${ending}`)],
  ...['', '-wal', '-shm', '-journal', ...SALVAGE_ENDINGS].map((ending) => `.db${ending}`),
];

/** The shortest interval between two looks at the free space. */
const LOOK_MS = 1000;

export type DirectoryOptions = {
  readonly directory: string;
  readonly name: string;
  readonly createDirectory: boolean;
  readonly minFreeBytes: number;
  readonly reserveBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
};

/** A data directory that this process owns, until it closes it or dies. */
export type OwnedDirectory = {
  readonly databaseFile: string;
  readonly reserveFile: string;
  /** Its existence says that the database has had its essential rows. */
  readonly filledFile: string;
  /** The files that must stay in their places while the database is open. */
  readonly watched: readonly string[];
  /** Called before every append. Never waits: the answer is at most about a second old. */
  shortage(): Error | undefined;
  /** For reports; at most about a second old if it is called regularly. */
  health(): DiskHealth;
  reserveWasUsed(): void;
  /** Makes a used reserve again if there is room: the log of a closed database is removed, and the next start on a full disk needs room. */
  close(): Promise<void>;
  /** As the end of the process would. */
  abandon(): Promise<void>;
};

/** Whether there is room to accept anything, and how much. */
export type DiskHealth = {
  readonly ready: boolean;
  readonly message?: string;
  readonly details: {
    /** Null if the system did not report it. */
    readonly disk_free_bytes: number | null;
    readonly disk_min_free_bytes: number;
  };
};

export async function openDirectory(options: DirectoryOptions): Promise<OwnedDirectory> {
  const directory = resolve(options.directory);
  const path = (suffix: string): string => join(directory, options.name + suffix);
  await ensureDirectory(directory, options.createDirectory, options.logger);
  await refuseLinks(ENDINGS.map(path));
  const lock = await takeLock(directory, path('.lock'), path('.pid'));
  try {
    // Created before SQLite opens it, because SQLite gives its other files the same permissions.
    await ensureFile(path('.db'));
    const lockIdentity = identitiesOf([path('.lock')]);
    const space = await watchSpace(directory, path('.reserve'), options);
    return {
      databaseFile: path('.db'),
      reserveFile: path('.reserve'),
      filledFile: path('.filled'),
      watched: ['.db', '.db-wal', '.db-shm', '.lock'].map(path),
      shortage: space.shortage,
      health: space.health,
      reserveWasUsed: space.reserveWasUsed,
      close: async () => {
        await space.settled();
        // Another daemon may run in a directory that took the place of this one.
        if (movedOf(lockIdentity) === undefined) {
          await space.leaveReserve();
          await rm(path('.pid'), { force: true });
        }
        lock.close();
      },
      abandon: async () => {
        await space.settled();
        lock.close();
      },
    };
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Rejects if another process owns the directory. */
export async function assertUnused(directory: string, name: string): Promise<void> {
  const file = join(directory, name);
  await refuseLinks([`${file}.lock`, `${file}.pid`]);
  const lock = await takeLock(directory, `${file}.lock`, `${file}.pid`);
  await rm(`${file}.pid`, { force: true });
  lock.close();
}

/**
 * The lock is an exclusive transaction on a small database that stays open: the system releases it when the process
 * ends, even by a kill. No other code may open and close the lock file: a close in the same process releases it.
 */
async function takeLock(directory: string, file: string, pidFile: string): Promise<DatabaseSync> {
  await ensureFile(file).catch((error: unknown) => {
    throw unusable(directory, error);
  });
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(file, { timeout: 0 });
    // A journal would need room on the disk.
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    lock?.close();
    if (!isBusy(errcodeOf(error))) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`${file} cannot be locked: ${reason}`, { cause: error });
    }
    const pid = await readFile(pidFile, 'utf8').catch(() => '');
    const owner = /^\d+$/.test(pid) ? ` (pid ${pid})` : '';
    const message = `data directory ${directory} is in use by another tracectl${owner}`;
    throw new DirectoryInUseError(message, { cause: error });
  }
  await writePid(pidFile);
  return lock;
}

async function writePid(file: string): Promise<void> {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
  const make = () => open(file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600);
  const handle = await make().catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EACCES') throw error;
    // A command of root that was killed left it, and the daemon is another user.
    await rm(file, { force: true });
    return make();
  });
  try {
    await handle.writeFile(String(process.pid));
  } catch (error) {
    // The number is only for messages and for commands that wait, and a queue on a full disk must start to become shorter.
    if (!isDiskFull(error)) throw error;
  } finally {
    await handle.close();
  }
}

async function ensureFile(file: string): Promise<void> {
  if (await exists(file)) return;
  try {
    // `x` follows no link.
    const handle = await open(file, 'ax', 0o600);
    await handle.chmod(0o600);
    await handle.close();
  } catch (error) {
    // Another process made it in the same moment; the lock decides between the two.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}

function exists(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    () => false,
  );
}

/** Synced, and with a time for people. A file that exists stays as it is. */
export async function markFilled(file: string, clock: Clock): Promise<void> {
  if (await exists(file)) return;
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(`${new Date(clock.now()).toISOString()}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

type Space = {
  shortage(): Error | undefined;
  health(): DiskHealth;
  reserveWasUsed(): void;
  settled(): Promise<void>;
  leaveReserve(): Promise<void>;
};

async function watchSpace(
  directory: string,
  reserveFile: string,
  options: DirectoryOptions,
): Promise<Space> {
  const { minFreeBytes, reserveBytes, clock, logger } = options;
  await removeUnfinishedReserve(reserveFile);
  let reserved = await reserveExists(reserveFile, reserveBytes);
  let isShort = false;
  let freeBytes: number | undefined;
  /** The reserve was given up, and no new one exists yet. */
  let isDraining = false;
  let cancelLook: (() => void) | undefined;
  let lookedAt = 0;
  let looking: Promise<void> | undefined;
  const reserve = reserveFilling(reserveFile, reserveBytes, options, () => {
    reserved = true;
    if (isDraining) logger.info({ directory }, 'Reserve restored; accepting resumed');
    isDraining = false;
  });

  async function look(): Promise<void> {
    const free = await freeBytesIn(directory);
    freeBytes = free;
    // The thread may have used it just before it counted as restored; no other report would come.
    reserved &&= await reserveExists(reserveFile, reserveBytes);
    if (free < minFreeBytes !== isShort) {
      isShort = !isShort;
      if (isShort) {
        logger.warn(
          { directory, free, needed: minFreeBytes },
          'Disk space below min_free_bytes; accepting stopped',
        );
      } else logger.info({ directory, free }, 'Disk space sufficient; accepting resumed');
    }
    const spare = reserveBytes / 2;
    if (!reserved && reserveBytes > 0 && free >= minFreeBytes + reserveBytes + spare)
      reserve.fill(isDraining ? spare : 0);
  }

  function lookAgain(): void {
    lookedAt = clock.now();
    looking ??= look()
      .catch((err: unknown) => logger.warn({ directory, err }, 'Free disk space unknown'))
      .finally(() => {
        looking = undefined;
      });
  }

  /** A service that is not ready gets no requests, so `shortage` alone would never look again. */
  function lookWhileDraining(): void {
    cancelLook?.();
    cancelLook = clock.after(LOOK_MS, () => {
      if (!isDraining) return;
      lookAgain();
      lookWhileDraining();
    });
  }

  function shortage(): Error | undefined {
    if (Math.abs(clock.now() - lookedAt) >= LOOK_MS) lookAgain();
    if (!isShort && !isDraining) return undefined;
    return diskFull();
  }

  lookAgain();
  await looking;
  return {
    shortage,
    health: () => healthOf(shortage() === undefined, freeBytes ?? null, minFreeBytes),
    reserveWasUsed: () => {
      reserved = false;
      isDraining = true;
      lookWhileDraining();
    },
    settled: async () => {
      cancelLook?.();
      await looking;
      await reserve.settled();
    },
    leaveReserve: async () => {
      if (reserved || reserveBytes === 0) return;
      if ((await freeBytesIn(directory)) < reserveBytes) return;
      reserve.fill(0);
      await reserve.settled();
    },
  };
}

async function freeBytesIn(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

function healthOf(ready: boolean, free: number | null, min: number): DiskHealth {
  return {
    ready,
    ...(ready ? {} : { message: 'The disk has too little free space.' }),
    details: { disk_free_bytes: free, disk_min_free_bytes: min },
  };
}

function diskFull(): RetryableError {
  const message = 'the disk has too little free space';
  return new RetryableError('disk_full', message, { retryAfterMs: 5000 });
}
