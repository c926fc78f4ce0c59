import { randomFillSync } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { lstat, open, rename, rm } from 'node:fs/promises';
import type { Clock, Logger } from '../component/component.ts';
import { isDiskFull } from '../model/errors.ts';

/** Endings of a reserve that is not complete, and of a trial write. */
const NEW = '.new';
const TRIAL = '.trial';
/** Endings of the files of a reserve. */
export const RESERVE_ENDINGS = ['', NEW, TRIAL] as const;

/**
 * The pause behind a reserve that could not be made: the attempt takes all room for a moment, and a quota does not show in the free space
 * of the disk.
 */
const REFILL_MS = 10_000;

const BLOCK_BYTES = 1 << 20;
/** More than SQLite writes at once. */
const TRIAL_BYTES = 65_536;

export async function reserveExists(file: string, bytes: number): Promise<boolean> {
  const found = await lstat(file).catch(() => undefined);
  return found !== undefined && found.size >= bytes;
}

/** Removes what a killed process was writing: a full disk has no room for it. */
export async function removeUnfinishedReserve(file: string): Promise<void> {
  for (const ending of [NEW, TRIAL]) await rm(file + ending, { force: true });
}

/** Makes the reserve in the background. */
export type ReserveFilling = {
  /** Without effect if there is no room for the reserve and `spareBytes` more. */
  fill(spareBytes: number): void;
  settled(): Promise<void>;
};

export function reserveFilling(
  file: string,
  bytes: number,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
  onFilled: () => void,
): ReserveFilling {
  let filling: Promise<void> | undefined;
  let refillAt = Number.NEGATIVE_INFINITY;
  return {
    fill(spareBytes) {
      if (filling !== undefined || clock.now() < refillAt) return;
      filling = write(file, bytes, spareBytes)
        .then(onFilled, (err: unknown) => {
          refillAt = clock.now() + REFILL_MS;
          logger.warn({ reserveFile: file, err }, 'Reserve could not be created');
        })
        .finally(() => {
          filling = undefined;
        });
    },
    async settled() {
      await filling;
    },
  };
}

async function write(file: string, bytes: number, spareBytes: number): Promise<void> {
  const temporary = file + NEW;
  await rm(temporary, { force: true });
  const handle = await open(temporary, 'wx', 0o600);
  try {
    const total = bytes + spareBytes;
    const block = randomBlock(Math.min(total, BLOCK_BYTES));
    for (let written = 0; written < total; written += block.length) await handle.writeFile(block);
    await handle.truncate(bytes);
    await handle.sync();
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}

/** Whether the disk, or the quota of its user, has no room beside the reserve. */
export function isOutOfRoom(reserveFile: string): boolean {
  const file = reserveFile + TRIAL;
  try {
    rmSync(file, { force: true });
    try {
      // `x` follows no link.
      writeFileSync(file, randomBlock(TRIAL_BYTES), { flag: 'wx', mode: 0o600, flush: true });
    } finally {
      rmSync(file, { force: true });
    }
    return false;
  } catch (error) {
    return isDiskFull(error);
  }
}

/** Incompressible bytes, so that the file system really allocates the space. */
function randomBlock(bytes: number): Buffer {
  return randomFillSync(Buffer.alloc(bytes));
}
