import type { BigIntStats } from 'node:fs';
import { lstatSync } from 'node:fs';
import { lstat } from 'node:fs/promises';

/** Device and inode of files that a process has open, by their paths. */
export type FileIdentities = ReadonlyMap<string, string>;

/** Files that do not exist are left out. */
export function identitiesOf(paths: readonly string[]): FileIdentities {
  const found = new Map<string, string>();
  for (const path of paths) {
    const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    if (stats !== undefined) found.set(path, identityOf(stats));
  }
  return found;
}

/** The first path that does not lead to its file any more; undefined if all do. Two files take some microseconds. */
export function movedOf(identities: FileIdentities): string | undefined {
  for (const [path, identity] of identities) {
    try {
      if (identityOf(lstatSync(path, { bigint: true })) !== identity) return path;
    } catch (error) {
      if (isGone(error)) return path;
    }
  }
  return undefined;
}

/** As `movedOf`, off the event loop: a file system that hangs delays no request. */
export async function movedLater(identities: FileIdentities): Promise<string | undefined> {
  for (const [path, identity] of identities) {
    try {
      if (identityOf(await lstat(path, { bigint: true })) !== identity) return path;
    } catch (error) {
      if (isGone(error)) return path;
    }
  }
  return undefined;
}

/** Any other error, such as of permissions or of the disk, does not say where the file is. */
function isGone(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return error.code === 'ENOENT' || error.code === 'ENOTDIR' || error.code === 'ESTALE';
}

function identityOf({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}
