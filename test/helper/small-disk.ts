import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Teardown } from './redis-server.ts';

/** A small file system, removed with the test; undefined if none can be mounted, which takes root. */
export function smallDisk(t: Teardown, size: string): string | undefined {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-small-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const options = ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', directory];
  try {
    execFileSync('mount', options, { stdio: 'pipe' });
  } catch {
    return undefined;
  }
  t.teardown(() => void execFileSync('umount', ['-l', directory]));
  return directory;
}

/** Fills the file system of the file. */
export function fill(file: string): void {
  for (const bytes of [1 << 20, 4096]) {
    for (;;) {
      try {
        writeFileSync(file, Buffer.alloc(bytes), { flag: 'a' });
      } catch {
        break;
      }
    }
  }
}
