import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Another process that owns a directory, by the file that it wrote there; undefined if that process has ended. Takes no lock. In
 * containers, a process that was killed often had the number of this one.
 */
export async function ownerOf(directory: string): Promise<number | undefined> {
  const names = await readdir(directory).catch(() => []);
  for (const name of names.filter((each) => each.endsWith('.pid'))) {
    const text = await readFile(join(directory, name), 'utf8').catch(() => '');
    const pid = /^\d{1,9}$/.test(text) ? Number(text) : 0;
    if (pid > 0 && pid !== process.pid && isRunning(pid)) return pid;
  }
  return undefined;
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // A process of another user runs, too.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
