import { readFileSync, statSync } from 'node:fs';

/** The places of the completed writes and flushes in the kernel's `block/stat.rst`. */
const WRITES = 4;
const FLUSHES = 15;

/**
 * Returns a function that counts the writes and flushes which the device of a directory has completed. It reads memory of the kernel, so it
 * returns also if the device is away. Undefined if the directory has no device of its own in Linux's list, such as a server of files.
 */
export function completedWritesOf(directory: string): () => number | undefined {
  let file: string;
  try {
    const { dev } = statSync(directory, { bigint: true });
    const major = (dev >> 8n) & 0xfffn;
    const minor = (dev & 0xffn) | ((dev >> 12n) & 0xfff00n);
    file = `/sys/dev/block/${major}:${minor}/stat`;
  } catch {
    return () => undefined;
  }
  return () => {
    try {
      const counts = readFileSync(file, 'utf8').trim().split(/\s+/).map(Number);
      return (counts[WRITES] ?? 0) + (counts[FLUSHES] ?? 0);
    } catch {
      return undefined;
    }
  };
}
