import type { FileHandle } from 'node:fs/promises';
import { stat } from 'node:fs/promises';
import type { Settings } from '../../src/component/component.ts';
import type { FileConfig } from './config.ts';
import { openForAppend, syncDirectory } from './open.ts';
import { moveAside, prune } from './rotation.ts';
import { type CheckedPart, cutTornWrite } from './torn-write.ts';

/** A file that is appended to, until it is renamed and a new one starts. For one caller at a time. */
export type RotatingFile = {
  open(): Promise<void>;
  /** Bytes until the next rotation. */
  room(): number;
  /** Writes all bytes; if it rejects, none of them is in the file. */
  write(bytes: Buffer): Promise<void>;
  close(): Promise<void>;
};

export function createRotatingFile(settings: Settings, config: FileConfig): RotatingFile {
  const { logger, clock } = settings;
  const { path, rotation } = config;
  const maxBytes = rotation === undefined ? Infinity : rotation.max_megabytes * 1_048_576;
  let handle: FileHandle | undefined;
  let size = 0;
  let checked: CheckedPart | undefined;

  async function openFile(): Promise<FileHandle> {
    const opened = await openForAppend(config);
    try {
      checked = await cutTornWrite(opened, config, logger, checked);
      size = checked.end;
      await syncDirectory(path);
    } catch (error) {
      await opened.close();
      throw error;
    }
    handle = opened;
    return opened;
  }

  /** The open file, or a new one if the open one was moved or deleted. */
  async function currentFile(): Promise<FileHandle> {
    if (handle === undefined) return openFile();
    const [open, there] = await Promise.all([handle.stat(), stat(path).catch(() => undefined)]);
    if (there?.ino === open.ino && there.dev === open.dev) {
      // Another program may have appended to the file, or cut it: a failed write must not cut more than itself.
      size = open.size;
      if (checked !== undefined && size < checked.end) checked = undefined;
      return handle;
    }
    logger.info({ path }, 'File was moved or deleted; a new one is opened');
    await close();
    return openFile();
  }

  async function rotate(): Promise<FileHandle> {
    await close();
    await moveAside(path, clock.now());
    const opened = await openFile();
    if (rotation !== undefined) await prune(path, rotation, clock.now(), logger);
    return opened;
  }

  async function write(bytes: Buffer): Promise<void> {
    let file = await currentFile();
    if (size > 0 && size + bytes.length > maxBytes) file = await rotate();
    try {
      await writeFully(file, bytes);
      if (config.fsync) await file.datasync();
    } catch (error) {
      await undoPartialWrite(file);
      throw error;
    }
    if (checked?.end === size) checked = { ...checked, end: size + bytes.length };
    size += bytes.length;
  }

  /** Removes a partial write. The next write opens the file again. */
  async function undoPartialWrite(file: FileHandle): Promise<void> {
    try {
      await file.truncate(size);
    } catch (err) {
      logger.warn({ path, err }, 'Partial write could not be removed');
    }
    await close();
  }

  async function close(): Promise<void> {
    const file = handle;
    handle = undefined;
    await file?.close().catch((err: unknown) => {
      logger.warn({ path, err }, 'File could not be closed');
    });
  }

  return {
    async open() {
      await openFile();
    },
    room: () => (size < maxBytes ? maxBytes - size : maxBytes),
    write,
    close,
  };
}

/** One write may take only some of the bytes. */
async function writeFully(file: FileHandle, bytes: Buffer): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    const { bytesWritten } = await file.write(bytes, written);
    written += bytesWritten;
  }
}
