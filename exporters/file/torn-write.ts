import type { FileHandle } from 'node:fs/promises';
import type { Logger } from '../../src/component/component.ts';
import type { FileConfig } from './config.ts';
import { OTLP_LINE_START } from './otlp-line.ts';

/**
 * A crash may leave half a line, or half a frame, at the end of the file. It was never acknowledged and
 * will be delivered again, and whatever is appended to it could not be read: it is cut off. Resolves with
 * the size of the file. Throws where the file holds something else than what this exporter writes.
 */
export async function cutTorn(
  file: FileHandle,
  config: FileConfig,
  logger: Logger,
): Promise<number> {
  const { size } = await file.stat();
  if (size === 0) return 0;
  const end =
    config.compression === 'zstd' ? await endOfFrames(file, size) : await endOfLines(file, size);
  if (end === undefined) {
    const written = config.compression === 'zstd' ? 'zstd frames' : 'JSON lines';
    throw new Error(`${config.path} exists and does not hold ${written}: move it away`);
  }
  if (end < size) {
    logger.warn(
      { path: config.path, bytes: size - end },
      'Cut off what a crash left half written.',
    );
    await file.truncate(end);
  }
  return end;
}

const CHUNK = 65_536;
const NEWLINE = 0x0a;
/** How every line begins, by its format. */
const LINE_STARTS = ['{"raw_event_id":"', OTLP_LINE_START].map((text) => Buffer.from(text));
const LINE_OPENING = Buffer.from('{');

/** Behind the last newline; undefined when the file begins, or what follows it is, nothing of ours. */
async function endOfLines(file: FileHandle, size: number): Promise<number | undefined> {
  if (!isBegunBy(await readAt(file, 0, 1), LINE_OPENING)) return undefined;
  const end = await behindLastNewline(file, size);
  const torn = await readAt(file, end, Math.max(...LINE_STARTS.map(({ length }) => length)));
  return LINE_STARTS.some((start) => isBegunBy(torn, start)) || isBlank(torn) ? end : undefined;
}

async function behindLastNewline(file: FileHandle, size: number): Promise<number> {
  for (let end = size; end > 0; end -= CHUNK) {
    const start = Math.max(0, end - CHUNK);
    const newline = (await readAt(file, start, end - start)).lastIndexOf(NEWLINE);
    if (newline !== -1) return start + newline + 1;
  }
  return 0;
}

/** The text begins as expected, as far as both go. */
function isBegunBy(text: Buffer, expected: Buffer): boolean {
  const length = Math.min(text.length, expected.length);
  return text.subarray(0, length).equals(expected.subarray(0, length));
}

/** Some file systems fill what a power cut kept them from writing with zeros. */
function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0);
}

const FRAME_START = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** Behind the last complete frame; undefined when the file holds something that is no frame. */
async function endOfFrames(file: FileHandle, size: number): Promise<number | undefined> {
  let end = 0;
  while (end < size) {
    const next = await endOfFrame(file, end, size);
    if (next === 'foreign') return isBlank(await readAt(file, end, CHUNK)) ? end : undefined;
    if (next === 'torn') return end;
    end = next;
  }
  return end;
}

/** RFC 8878, 3.1.1: walks over a frame by the sizes in its headers. */
async function endOfFrame(
  file: FileHandle,
  start: number,
  size: number,
): Promise<number | 'torn' | 'foreign'> {
  const head = await readAt(file, start, 5);
  if (!isBegunBy(head, FRAME_START)) return 'foreign';
  if (head.length < 5) return 'torn';
  const descriptor = head[4] ?? 0;
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  const checksumBytes = (descriptor & 0x04) === 0 ? 0 : 4;
  let at = start + 5 + (isSingleSegment ? 0 : 1) + dictionaryBytes + sizeBytes;
  for (;;) {
    const header = await readAt(file, at, 3);
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
