import type { Stats } from 'node:fs';
import { lstat, mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

const MODE = 0o700;

/**
 * Creates a directory for this user, with those above it that are missing. In place of the `recursive` of Node's `mkdir`, which never ends
 * below /proc, and reports a read-only file system as a missing directory.
 */
export async function makeDirectory(path: string): Promise<void> {
  const missing: string[] = [];
  for (let at = resolve(path); !(await isDirectory(at)); at = dirname(at)) missing.push(at);
  for (const directory of missing.reverse()) await makeOne(directory);
}

/** Whether the directory exists. Rejects if something else does. */
async function isDirectory(path: string): Promise<boolean> {
  const found = await statOf(path);
  if (found === undefined) return false;
  if (found.isDirectory()) return true;
  throw new Error(`${path} is not a directory`);
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    // ENOTDIR: a path above it is a file, which the next look finds.
    if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error;
  }
  const isLink = await lstat(path).then(
    (found) => found.isSymbolicLink(),
    () => false,
  );
  if (isLink) throw new Error(`${path} is a symbolic link to a path that does not exist`);
  return undefined;
}

async function makeOne(directory: string): Promise<void> {
  try {
    await mkdir(directory, { mode: MODE });
  } catch (error) {
    // Another process made it in the same moment.
    if (!hasCode(error, 'EEXIST') || !(await isDirectory(directory))) throw error;
  }
}

function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}
