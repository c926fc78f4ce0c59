import { promisify } from 'node:util';
import { zstdCompress } from 'node:zlib';
import type { Settings } from '../../src/component/component.ts';
import { isDiskFull, RetryableError } from '../../src/model/errors.ts';
import type { FileConfig } from './config.ts';
import { claimFile } from './open.ts';
import { createRotatingFile } from './rotating-file.ts';

/** The only writer of a file. Appends that wait for a write in progress are written together. */
export type Writer = {
  open(): Promise<void>;
  /** Resolves when the bytes are in the file, and synced with `fsync`; rejects with `RetryableError`. */
  append(bytes: Buffer): Promise<void>;
  /** Resolves when every append is written. */
  close(): Promise<void>;
};

type WaitingAppend = { readonly bytes: Buffer; resolve(): void; reject(error: unknown): void };

/** The most bytes of one write; a larger append is written on its own. */
const GROUP_BYTES = 4 * 1_048_576;

const compress = promisify(zstdCompress);

export function createWriter(settings: Settings, config: FileConfig): Writer {
  const file = createRotatingFile(settings, config);
  const waiting: WaitingAppend[] = [];
  let isOpen = false;
  let endClaim = (): void => {};
  let working: Promise<void> | undefined;

  async function work(): Promise<void> {
    while (waiting.length > 0) {
      const group = takeGroup();
      try {
        const plain = Buffer.concat(group.map(({ bytes }) => bytes));
        await file.write(config.compression === 'zstd' ? await compress(plain) : plain);
        for (const { resolve } of group) resolve();
      } catch (error) {
        const failure = asRetryable(error, config.path);
        for (const { reject } of group) reject(failure);
      }
    }
    // In the same turn as the last check of `waiting`, so that the next append starts the work again.
    working = undefined;
  }

  /** Takes as many appends as fit into the file, so that the file is not rotated early. */
  function takeGroup(): WaitingAppend[] {
    const room = Math.min(GROUP_BYTES, file.room());
    let bytes = 0;
    let count = 0;
    for (const each of waiting) {
      if (count > 0 && bytes + each.bytes.length > room) break;
      bytes += each.bytes.length;
      count++;
    }
    return waiting.splice(0, count);
  }

  return {
    async open() {
      endClaim = await claimFile(config);
      await file.open();
      isOpen = true;
    },
    append(bytes) {
      if (!isOpen) {
        return Promise.reject(new RetryableError('shutting_down', 'The file is not open.'));
      }
      if (bytes.length === 0) return Promise.resolve();
      return new Promise((resolve, reject) => {
        waiting.push({ bytes, resolve, reject });
        working ??= work();
      });
    },
    async close() {
      isOpen = false;
      await working;
      await file.close();
      endClaim();
      endClaim = () => {};
    },
  };
}

function asRetryable(error: unknown, path: string): RetryableError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const isFull = isDiskFull(error);
  return new RetryableError(
    isFull ? 'disk_full' : 'file_unwritable',
    isFull ? `No room to write ${path}.` : `Cannot write ${path}: ${code || String(error)}.`,
    { cause: error, retryAfterMs: isFull ? 5_000 : 1_000 },
  );
}
