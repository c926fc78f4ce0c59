import type { FileHandle } from 'node:fs/promises';
import type { Logger } from '../../src/component/component.ts';
import type { FileConfig } from './config.ts';
import { LINE_STARTS } from './lines.ts';

/** A part of a file that this process has written or checked: whole lines or frames, from its start. */
export type CheckedPart = { readonly ino: number; readonly dev: number; readonly end: number };

/**
 * Cuts off half a line, or half a frame, that a crash left at the end of the file. It was never acknowledged,
 * so it is delivered again, and bytes after it could not be read. Resolves with the file as it is then. Rejects
 * if the file has other content than this exporter writes. Only the frames behind the checked part are read.
 */
export async function cutTornWrite(
  file: FileHandle,
  config: FileConfig,
  logger: Logger,
  checked?: CheckedPart,
): Promise<CheckedPart> {
  const { size, ino, dev } = await file.stat();
  if (size === 0) return { ino, dev, end: 0 };
  const isSame = checked?.ino === ino && checked.dev === dev && checked.end <= size;
  const end =
    config.compression === 'zstd'
      ? await endOfFrames(file, isSame ? checked.end : 0, size)
      : await endOfLines(file, size);
  if (end === undefined) {
    const written = config.compression === 'zstd' ? 'zstd frames' : 'JSON lines';
    throw new Error(`${config.path} exists and does not hold ${written}. Move it away.`);
  }
  if (end < size) {
    logger.warn({ path: config.path, bytes: size - end }, 'Incomplete end of the file removed');
    await file.truncate(end);
  }
  return { ino, dev, end };
}

const CHUNK = 65_536;
const NEWLINE = 0x0a;
const STARTS = Object.values(LINE_STARTS).map((text) => Buffer.from(text));
const LINE_OPENING = Buffer.from('{');

/** The offset after the last newline; undefined if the file, or its last line, starts with other content. */
async function endOfLines(file: FileHandle, size: number): Promise<number | undefined> {
  if (!isBegunBy(await readAt(file, 0, 1), LINE_OPENING)) return undefined;
  const end = await behindLastNewline(file, size);
  const torn = await readAt(file, end, Math.max(...STARTS.map(({ length }) => length)));
  return STARTS.some((start) => isBegunBy(torn, start)) || isBlank(torn) ? end : undefined;
}

async function behindLastNewline(file: FileHandle, size: number): Promise<number> {
  for (let end = size; end > 0; end -= CHUNK) {
    const start = Math.max(0, end - CHUNK);
    const newline = (await readAt(file, start, end - start)).lastIndexOf(NEWLINE);
    if (newline !== -1) return start + newline + 1;
  }
  return 0;
}

/** Compares as many bytes as both have. */
function isBegunBy(text: Buffer, expected: Buffer): boolean {
  const length = Math.min(text.length, expected.length);
  return text.subarray(0, length).equals(expected.subarray(0, length));
}

/** After a power cut, some file systems have zeros in place of unwritten data. */
function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}

const FRAME_START = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/**
 * The offset after the last complete frame; undefined if the file has content that is no frame. Frames cannot be found from the end of the
 * file, because the payloads in them may look like frames. Many small frames take one read.
 */
async function endOfFrames(
  file: FileHandle,
  start: number,
  size: number,
): Promise<number | undefined> {
  const read = readingAhead(file);
  let end = start;
  while (end < size) {
    const next = await endOfFrame(read, end, size);
    if (next === 'foreign') return isBlank(await readAt(file, end, CHUNK)) ? end : undefined;
    if (next === 'torn') return end;
    end = next;
  }
  return end;
}

type Read = (position: number, length: number) => Buffer | Promise<Buffer>;

/** Reads short parts of a file in ascending order. */
function readingAhead(file: FileHandle): Read {
  let from = 0;
  let bytes: Buffer = Buffer.alloc(0);
  const load = async (position: number, length: number): Promise<Buffer> => {
    bytes = await readAt(file, position, CHUNK);
    from = position;
    return bytes.subarray(0, length);
  };
  return (position, length) => {
    const at = position - from;
    return at >= 0 && at + length <= bytes.length
      ? bytes.subarray(at, at + length)
      : load(position, length);
  };
}

/** Finds the end of a frame by the sizes in its headers; RFC 8878, 3.1.1. */
async function endOfFrame(
  read: Read,
  start: number,
  size: number,
): Promise<number | 'torn' | 'foreign'> {
  const head = await read(start, 5);
  if (!isBegunBy(head, FRAME_START)) return 'foreign';
  if (head.length < 5) return 'torn';
  const descriptor = head[4] ?? 0;
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  const checksumBytes = (descriptor & 0x04) === 0 ? 0 : 4;
  let at = start + 5 + (isSingleSegment ? 0 : 1) + dictionaryBytes + sizeBytes;
  for (;;) {
    const header = await read(at, 3);
    if (header.length < 3) return 'torn';
    const bits = header.readUIntLE(0, 3);
    const isRun = ((bits >> 1) & 3) === 1;
    at += 3 + (isRun ? 1 : bits >> 3);
    if (at > size) return 'torn';
    if ((bits & 1) === 1) break;
  }
  return at + checksumBytes > size ? 'torn' : at + checksumBytes;
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}
