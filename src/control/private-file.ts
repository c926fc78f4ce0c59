import { constants } from 'node:fs';
import { open, rename } from 'node:fs/promises';

/**
 * Writes a file that only this user can read (mode 0600). Renames a temporary file, so that a crash leaves a
 * complete file or none. Does not follow a link.
 */
export async function writePrivateFile(file: string, text: string): Promise<void> {
  const draft = `${file}.new`;
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
