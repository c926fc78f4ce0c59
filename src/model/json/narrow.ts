import type { JsonIndex } from '../batch-index.ts';
import { NARROW_LIMITS } from '../narrow-limits.ts';
import { BACKSLASH, QUOTE } from './grammar.ts';
import { endOf, startOf, stringIn } from './read.ts';

/**
 * The bytes of a text in JSON of which narrow fields keep no more than the beginning: an escape has six bytes for each byte of the text. The
 * margin is for the last character and its escape, of which the end may be missing.
 */
const MOST_BYTES = 6 * (NARROW_LIMITS.ERROR + 8);
/** `\u0041`, and all others. */
const UNICODE_ESCAPE = 6;
const SHORT_ESCAPE = 2;

/**
 * As `stringAt`, for a text that a narrow field cuts: of a longer one only the beginning is decoded, which is longer than the limit of any
 * narrow field. A body of 25 MiB that is one text of escapes takes a second as a whole.
 */
export function narrowStringAt(
  index: JsonIndex,
  position: number,
  slot: number,
): string | undefined {
  const start = startOf(index, position, slot);
  if (start === 0 || index.bytes[start] !== QUOTE) return undefined;
  return narrowStringIn(index.bytes, start, endOf(index, position, slot));
}

/** As `stringIn`, in the same way. */
export function narrowStringIn(bytes: Buffer, start: number, end: number): string {
  if (end - start <= MOST_BYTES) return stringIn(bytes, start, end);
  const stop = start + MOST_BYTES;
  let at = start + 1;
  for (let next = at; next <= stop; next += lengthAt(bytes, next)) at = next;
  while (isContinuation(bytes[at])) at--;
  return String(JSON.parse(`${bytes.toString('utf8', start, at)}"`));
}

/** The bytes of an escape, or one byte. */
function lengthAt(bytes: Buffer, at: number): number {
  if (bytes[at] !== BACKSLASH) return 1;
  return bytes[at + 1] === 0x75 ? UNICODE_ESCAPE : SHORT_ESCAPE;
}

function isContinuation(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}
