import { constants } from 'node:fs';
import { link, open, readFile, rename, unlink } from 'node:fs/promises';

/**
 * Writes a file that only this user can read (mode 0600). Renames a temporary file, so that a crash leaves a
 * complete file or none. Does not follow a link.
 */
export async function writePrivateFile(file: string, text: string): Promise<void> {
  const draft = draftOf(file);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const handle = await open(draft, flags, 0o600);
  try {
    await handle.chmod(0o600);
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
}

/**
 * Renames what a process that was killed had written, if `isComplete` and there is no file of the name yet. Resolves with
 * false if it did not.
 */
export async function finishPrivateFile(
  file: string,
  isComplete: (text: string) => boolean,
): Promise<boolean> {
  const flag = constants.O_RDONLY | constants.O_NOFOLLOW;
  const text = await readFile(draftOf(file), { encoding: 'utf8', flag }).catch(() => '');
  if (!isComplete(text)) return false;
  // Fails if the name is taken, which a rename replaces.
  await link(draftOf(file), file);
  await unlink(draftOf(file));
  return true;
}

function draftOf(file: string): string {
  return `${file}.new`;
}
