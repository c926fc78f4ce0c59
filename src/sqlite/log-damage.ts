import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** Commits in a write-ahead log that SQLite ignores, because the log is damaged before them. */
export type LogDamage = {
  /** Frames from the damage on. */
  readonly frames: number;
  /** Commits among these frames. */
  readonly commits: number;
};

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
/** The two magic numbers of a log: its last bit says that the checksums are over big-endian words. */
const MAGIC = 0x377f0682;
/** SQLite's bound of a page. */
const MAX_PAGE_BYTES = 65_536;
const FRAMES_PER_READ = 64;

type Header = { readonly pageBytes: number; readonly isBigEndian: boolean; sums: Sums };
/** The running checksum: each frame continues that of the frame before it. */
type Sums = readonly [number, number];

/**
 * Looks for the first frame with a wrong checksum, and counts the frames of the same log behind it. SQLite ends the log
 * there without an error. Returns undefined if no commit is behind it: frames that a killed process was writing, or
 * that a transaction rolled back, have none. After a power failure the commits may be such that no client got an answer for.
 */
export function logDamageIn(file: string, pageBytes: number): LogDamage | undefined {
  let log: number;
  try {
    log = openSync(file, 'r');
  } catch {
    return undefined;
  }
  try {
    return scan(log, pageBytes);
  } finally {
    closeSync(log);
  }
}

function scan(log: number, usualPageBytes: number): LogDamage | undefined {
  const size = fstatSync(log).size;
  const head = Buffer.alloc(HEADER_BYTES + FRAME_HEADER_BYTES);
  if (size < head.length || readSync(log, head, 0, head.length, 0) < head.length) return undefined;
  const header = headerIn(head);
  // Frames of an earlier use of the log have another salt. With a damaged header the first frame has the salt.
  const salt = header === undefined ? head.subarray(40, 48) : head.subarray(16, 24);
  const pageBytes = header?.pageBytes ?? usualPageBytes;
  const frameBytes = FRAME_HEADER_BYTES + pageBytes;
  const chunk = Buffer.alloc(FRAMES_PER_READ * frameBytes);
  let sums = header?.sums;
  let frames = 0;
  let commits = 0;
  for (let at = HEADER_BYTES; at + frameBytes <= size; ) {
    const read = readSync(log, chunk, 0, chunk.length, at);
    const whole = Math.floor(read / frameBytes);
    if (whole === 0) break;
    for (let i = 0; i < whole; i++) {
      const frame = chunk.subarray(i * frameBytes, (i + 1) * frameBytes);
      const isOfLog = frame.subarray(8, 16).equals(salt);
      sums = sums && isOfLog ? nextSums(frame, sums, header?.isBigEndian === true) : undefined;
      if (sums !== undefined || !isOfLog) continue;
      frames++;
      if (frame.readUInt32BE(4) !== 0) commits++;
    }
    at += whole * frameBytes;
  }
  return commits === 0 ? undefined : { frames, commits };
}

/** Undefined if the header is damaged: SQLite ignores the whole log then. */
function headerIn(head: Buffer): Header | undefined {
  const magic = head.readUInt32BE(0);
  const pageBytes = head.readUInt32BE(8);
  const isPage = pageBytes >= 512 && pageBytes <= MAX_PAGE_BYTES;
  if ((magic & ~1) >>> 0 !== MAGIC || !isPage) return undefined;
  const isBigEndian = (magic & 1) === 1;
  const sums = add(head, 0, 24, [0, 0], isBigEndian);
  const isSound = head.readUInt32BE(24) === sums[0] && head.readUInt32BE(28) === sums[1];
  return isSound ? { pageBytes, isBigEndian, sums } : undefined;
}

/** The checksum up to this frame; undefined if the frame has another one. */
function nextSums(frame: Buffer, before: Sums, isBigEndian: boolean): Sums | undefined {
  const ofHeader = add(frame, 0, 8, before, isBigEndian);
  const sums = add(frame, FRAME_HEADER_BYTES, frame.length, ofHeader, isBigEndian);
  const isSound = frame.readUInt32BE(16) === sums[0] && frame.readUInt32BE(20) === sums[1];
  return isSound ? sums : undefined;
}

function add(bytes: Buffer, from: number, to: number, before: Sums, isBigEndian: boolean): Sums {
  let [a, b] = before;
  const word = (at: number): number =>
    isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at);
  for (let at = from; at < to; at += 8) {
    a = (a + word(at) + b) >>> 0;
    b = (b + word(at + 4) + a) >>> 0;
  }
  return [a, b];
}
