import { constants } from 'node:fs';
import { access, chmod, lstat, stat } from 'node:fs/promises';
import type { Logger } from '../component/component.ts';
import { makeDirectory } from '../component/make-directory.ts';

const WRITABLE_BY_OTHERS = 0o022;
/** Set on directories that users share, such as /tmp. */
const STICKY = 0o1000;

/**
 * Makes sure that this user can write to a directory, and that no other user can. Rejects with a sentence if that is
 * not so and cannot be corrected.
 */
export async function ensureDirectory(
  directory: string,
  create: boolean,
  logger: Logger,
): Promise<void> {
  try {
    if (create) await makeDirectory(directory);
    const found = await stat(directory);
    if (!found.isDirectory()) throw new Error('it is not a directory');
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
    await closeToOthers(directory, found, logger);
  } catch (error) {
    throw unusable(directory, error);
  }
}

/** A sentence about a directory in which this process cannot work. */
export function unusable(directory: string, error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error);
  return new Error(`data directory ${directory} cannot be used: ${reason}`, { cause: error });
}

/** Other users could put files of their own in the place of the daemon's. Windows has no such modes. */
async function closeToOthers(
  directory: string,
  { mode, uid }: { mode: number; uid: number },
  logger: Logger,
): Promise<void> {
  const self = process.getuid?.();
  if (self === undefined || (mode & WRITABLE_BY_OTHERS) === 0) return;
  const shown = (mode & 0o7777).toString(8).padStart(4, '0');
  // A shared directory, or another user's, belongs to more than this daemon: its mode is not the daemon's to change.
  if (uid !== self || (mode & STICKY) !== 0) {
    throw new Error(
      `other users may write to it (mode ${shown}). Remove their permission with "chmod go-w", or name a directory inside it, which is created with mode 0700`,
    );
  }
  await chmod(directory, mode & 0o7777 & ~WRITABLE_BY_OTHERS);
  logger.warn(
    { directory, mode: shown },
    'Data directory was writable for other users; permission removed',
  );
}

/** Rejects if one of the paths is anything but a regular file, such as a symbolic link to another place. */
export async function refuseLinks(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const found = await lstat(path).catch(() => undefined);
    if (found === undefined || found.isFile()) continue;
    const kind = found.isSymbolicLink() ? 'a symbolic link' : 'not a regular file';
    throw new Error(
      `${path} is ${kind}: tracectl only opens regular files there. Remove it; the data directory itself may be a link`,
    );
  }
}
