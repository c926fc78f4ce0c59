import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Another process that owns a directory, by the file that it wrote there; undefined if that process has ended, also if another one has its
 * number since. Takes no lock. In containers, a process that was killed often had the number of this one.
 */
export async function ownerOf(directory: string): Promise<number | undefined> {
  const names = await readdir(directory).catch(() => []);
  for (const name of names.filter((each) => each.endsWith('.pid'))) {
    const text = await readFile(join(directory, name), 'utf8').catch(() => '');
    const pid = /^\d{1,9}$/.test(text) ? Number(text) : 0;
    if (pid === 0 || pid === process.pid || !isRunning(pid)) continue;
    if (await hasOpen(pid, join(directory, name.replace(/\.pid$/, '.lock')))) return pid;
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

/** Whether the process has the file open; true if that cannot be known, on another system or of another user. */
async function hasOpen(pid: number, file: string): Promise<boolean> {
  const open = `/proc/${pid}/fd`;
  try {
    const { dev, ino } = await stat(file);
    for (const fd of await readdir(open)) {
      const found = await stat(join(open, fd)).catch(undefinedIfClosed);
      if (found?.dev === dev && found.ino === ino) return true;
    }
    return false;
  } catch {
    return true;
  }
}

/** A process closes files while they are looked at. Root of a container may list the files of another user, and look at none. */
function undefinedIfClosed(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
  throw error;
}
