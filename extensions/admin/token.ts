import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';

const FILE = 'admin-token';

export type KeptToken = { readonly token: string; readonly file: string };

/** The admin token of a data directory; made where there is none yet. Only this user can read it. */
export async function keepToken(directory: string): Promise<KeptToken> {
  const file = join(directory, FILE);
  const found = await readToken(file);
  if (found !== undefined) return { token: found, file };
  const token = `admin_${randomBytes(32).toString('base64url')}`;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await writeToken(file, token);
  return { token, file };
}

/** Undefined where there is none. A link is not followed: what it points to is not ours. */
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
    const { mode } = await handle.stat();
    // Somebody copied the directory about: the token was never meant for others.
    if ((mode & 0o077) !== 0) await handle.chmod(0o600);
    const token = (await handle.readFile('utf8')).trim();
    return token === '' ? undefined : token;
  } finally {
    await handle.close();
  }
}

/** Under another name first, so that a crash leaves a whole token or none. */
async function writeToken(file: string, token: string): Promise<void> {
  const draft = `${file}.new`;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const handle = await open(draft, flags, 0o600);
  try {
    await handle.chmod(0o600);
    await handle.writeFile(`${token}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
}

/** Said of a store that has no data directory, where the configuration gives no token. */
export function noPlaceForToken(store: string): string {
  return `the admin API is not served without a token: ${store} has no data directory to keep one in; set "token", for example to \${env:TRACECTL_ADMIN_TOKEN}`;
}
