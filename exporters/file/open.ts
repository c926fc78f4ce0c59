import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { open, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { makeDirectory } from '../../src/component/make-directory.ts';
import type { FileConfig } from './config.ts';

/** Never through a symbolic link, never into a pipe or device (and without waiting for its reader). */
const FLAGS =
  constants.O_RDWR |
  constants.O_APPEND |
  constants.O_CREAT |
  constants.O_NOFOLLOW |
  constants.O_NONBLOCK;

export async function openForAppend(config: FileConfig): Promise<FileHandle> {
  if (config.create_directory) await makeDirectory(dirname(config.path));
  const file = await open(config.path, FLAGS, 0o600);
  const stats = await file.stat();
  if (stats.isFile()) return file;
  await file.close();
  throw new Error(`${config.path} is not a regular file. Remove it, or set another path.`);
}

/** Paths of files that this process writes. */
const claimed = new Set<string>();

/**
 * Claims a file for one exporter: two would rename it under each other, and cut off each other's lines. Returns a
 * function that ends the claim. Rejects if another exporter has the file.
 */
export async function claimFile({ path, create_directory: creates }: FileConfig) {
  if (creates) await makeDirectory(dirname(path));
  const place = join(await realpath(dirname(path)), basename(path));
  if (claimed.has(place)) {
    throw new Error(`another exporter writes ${path}: give each exporter a path of its own`);
  }
  claimed.add(place);
  return () => {
    claimed.delete(place);
  };
}

/** A new name survives a power cut only after its directory is synced. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(dirname(path), constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
