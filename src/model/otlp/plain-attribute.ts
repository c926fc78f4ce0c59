import { CLOSE_BRACE, QUOTE, skipString, type Text } from '../json/grammar.ts';

/**
 * Attributes in JSON as nearly all clients write them: `{"key":"…","value":{"stringValue":"…"}}`, or with an `intValue` of a few
 * digits, without white space and without escapes in the key. Hot path: it needs no look-up of member names.
 */

const KEY = wordsOf('{"key":"');
const STRING = wordsOf(',"value":{"stringValue":');
const INTEGER = wordsOf(',"value":{"intValue":');
const KEY_BYTES = 8;
const STRING_BYTES = 24;
const INTEGER_BYTES = 21;
/** The shortest attribute has more bytes than the tokens that are compared without a check of bounds. */
const SHORTEST = '{"key":"","value":{"stringValue":""}}'.length;
/** Integers with more digits may be out of range. */
const MAX_DIGITS = 15;

/** The place of the key of the attribute that was found last, without its quotes. */
export const plainKey = { keyStart: 0, keyEnd: 0 };

/**
 * The position behind the plain attribute at `start`, and the place of its key in `plainKey`; 0 for any other value, of which
 * nothing is counted in `text`. `depth` is the number of containers around it. Throws for an invalid string.
 */
export function skipPlainAttribute(text: Text, start: number, depth: number): number {
  const { bytes, view } = text;
  if (start + SHORTEST > bytes.length || depth + 2 > text.maxDepth) return 0;
  if (!areAt(view, start, KEY)) return 0;
  const { saved, escapes } = text;
  const keyStart = start + KEY_BYTES;
  const keyEnd = skipString(text, keyStart) - 1;
  const hasPlainKey = text.escapes === escapes;
  const end = hasPlainKey ? skipPlainValue(text, keyEnd + 1) : 0;
  if (end === 0) {
    text.saved = saved;
    text.escapes = escapes;
    return 0;
  }
  plainKey.keyStart = keyStart;
  plainKey.keyEnd = keyEnd;
  return end;
}

/** As `skipPlainAttribute`, from behind the key. */
function skipPlainValue(text: Text, start: number): number {
  const { bytes, view } = text;
  if (start + STRING_BYTES + 2 > bytes.length) return 0;
  let end: number;
  if (areAt(view, start, STRING) && bytes[start + STRING_BYTES] === QUOTE) {
    end = skipString(text, start + STRING_BYTES + 1);
  } else if (areAt(view, start, INTEGER) && bytes[start + INTEGER_BYTES - 1] === COLON) {
    end = skipQuotedDigits(bytes, start + INTEGER_BYTES);
  } else {
    return 0;
  }
  return bytes[end] === CLOSE_BRACE && bytes[end + 1] === CLOSE_BRACE ? end + 2 : 0;
}

const COLON = 0x3a;

/** The position behind the digits and their quotes; -1 if there are none or too many. */
function skipQuotedDigits(bytes: Buffer, start: number): number {
  if (bytes[start] !== QUOTE) return -1;
  let at = start + 1;
  while (isDigit(bytes[at]) && at - start <= MAX_DIGITS) at++;
  return at > start + 1 && bytes[at] === QUOTE ? at + 1 : -1;
}

function isDigit(byte = 0): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** The whole words of four bytes of a token. */
function wordsOf(token: string): Int32Array {
  const bytes = Buffer.from(token);
  return Int32Array.from({ length: bytes.length >> 2 }, (_, i) => bytes.readInt32LE(i * 4));
}

function areAt(view: DataView, start: number, words: Int32Array): boolean {
  for (let i = 0; i < words.length; i++) {
    if (view.getInt32(start + i * 4, true) !== words[i]) return false;
  }
  return true;
}
