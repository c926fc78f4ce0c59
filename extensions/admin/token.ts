import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory } from '../../src/component/make-directory.ts';
import { writePrivateFile } from '../../src/control/private-file.ts';

const FILE = 'admin-token';

export type KeptToken = { readonly token: string; readonly file: string };

/** The admin token of a data directory. Creates it if there is none. Only this user can read the file. */
export async function keepToken(directory: string): Promise<KeptToken> {
  const file = join(directory, FILE);
  const found = await readToken(file);
  if (found !== undefined) return { token: found, file };
  const token = `admin_${randomBytes(32).toString('base64url')}`;
  await makeDirectory(directory);
  await writePrivateFile(file, `${token}\n`);
  return { token, file };
}

/** Reads the token; undefined if there is none. Does not follow a link. */
async function readToken(file: string): Promise<string | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(`cannot read the admin token in ${file}: ${(error as Error).message}`, {
      cause: error,
    });
  }
  try {
    const found = await handle.stat();
    if (!found.isFile()) {
      throw new Error(
        `the admin token ${file} is not a regular file. Remove it: the next start makes one.`,
      );
    }
    const { mode } = found;
    // A copy of the directory may have lost the mode: restore it.
    if ((mode & 0o077) !== 0) await handle.chmod(0o600);
    const token = (await handle.readFile('utf8')).trim();
    return token === '' ? undefined : token;
  } finally {
    await handle.close();
  }
}

/** The message for a store without a data directory and a configuration without a token. */
export function noPlaceForToken(store: string): string {
  return `the admin API is not served: it has no token, and ${store} has no data directory to keep one. Set "token", for example to \${env:TRACECTL_ADMIN_TOKEN}`;
}
