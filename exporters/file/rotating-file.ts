import type { FileHandle } from 'node:fs/promises';
import { stat } from 'node:fs/promises';
import type { Settings } from '../../src/component/component.ts';
import type { FileConfig } from './config.ts';
import { openForAppend, syncDirectory } from './open.ts';
import { moveAside, prune } from './rotation.ts';
import { cutTorn } from './torn-write.ts';

/** A file that only grows at its end, until it is renamed and begun anew. One caller at a time. */
export type RotatingFile = {
  open(): Promise<void>;
  /** Bytes that fit before the next rotation. */
  room(): number;
  /** All of it or, when it rejects, nothing of it. */
  write(bytes: Buffer): Promise<void>;
  close(): Promise<void>;
};

export function createRotatingFile(settings: Settings, config: FileConfig): RotatingFile {
  const { logger, clock } = settings;
  const { path, rotation } = config;
  const maxBytes = rotation === undefined ? Infinity : rotation.max_megabytes * 1_048_576;
  let handle: FileHandle | undefined;
  let size = 0;

  async function openFile(): Promise<FileHandle> {
    const opened = await openForAppend(config);
    try {
      size = await cutTorn(opened, config, logger);
      await syncDirectory(path);
    } catch (error) {
      await opened.close();
      throw error;
    }
    handle = opened;
    return opened;
  }

  /** The open file, unless somebody moved or deleted it: then a new one at the path. */
  async function currentFile(): Promise<FileHandle> {
    if (handle === undefined) return openFile();
    const [open, there] = await Promise.all([handle.stat(), stat(path).catch(() => undefined)]);
    if (there?.ino === open.ino && there.dev === open.dev) return handle;
    logger.info({ path }, 'The file was moved away; opening it again.');
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
      await takeBack(file);
      throw error;
    }
    size += bytes.length;
  }

  /** Nothing half written stays behind, and the next write begins with a fresh descriptor. */
  async function takeBack(file: FileHandle): Promise<void> {
    try {
      await file.truncate(size);
    } catch (error) {
      logger.warn({ path, error }, 'What was half written could not be taken back.');
    }
    await close();
  }

  async function close(): Promise<void> {
    const file = handle;
    handle = undefined;
    await file?.close().catch((error: unknown) => {
      logger.warn({ path, error }, 'The file could not be closed.');
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

/** A write may take less than it was given. */
async function writeFully(file: FileHandle, bytes: Buffer): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    const { bytesWritten } = await file.write(bytes, written);
    written += bytesWritten;
  }
}
