import { BACKSLASH, QUOTE } from './grammar.ts';

const APOSTROPHE = 0x27;
const SPACE = 0x20;
const DELETE = 0x7f;
/** Bytes of U+0080 to U+009F in UTF-8, which are control characters: this one, and one below the second. */
const LEAD_OF_CONTROLS = 0xc2;
const BEHIND_CONTROLS = 0xa0;
/** The bytes of an object of numbers, beside those of words and texts. */
const OTHERS = byteSet('-+.eE{}[]:, 0123456789');
const OF_WORDS = byteSet('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz');
const WORDS = [
  [Buffer.from('None'), Buffer.from('null')],
  [Buffer.from('True'), Buffer.from('true')],
  [Buffer.from('False'), Buffer.from('false')],
] as const;

/**
 * Rewrites an object as Python prints it, `{'prompt_tokens': 21, 'cost': 2e-05, 'cached': None}`, to JSON; both have the same
 * length. False if it is no object of numbers, words and texts without escapes, or a text in apostrophes has a quote; the bytes are of no use
 * then. The JSON may still be malformed. In linear time, and without an allocation: a body may be one such text.
 */
export function pythonToJson(bytes: Buffer): boolean {
  let p = 0;
  while (p < bytes.length) {
    const byte = bytes[p] as number;
    if (byte === APOSTROPHE || byte === QUOTE) {
      const end = endOfText(bytes, p + 1, byte);
      if (end === -1) return false;
      bytes[p] = bytes[end] = QUOTE;
      p = end + 1;
    } else if (OTHERS[byte] === 1) {
      p++;
    } else {
      const length = rewriteWord(bytes, p);
      if (length === 0) return false;
      p += length;
    }
  }
  return true;
}

/** The position of the closing quote; -1 for a text that has a quote within apostrophes, a backslash or a control character. */
function endOfText(bytes: Buffer, start: number, quote: number): number {
  for (let p = start; p < bytes.length; p++) {
    const byte = bytes[p] as number;
    if (byte === quote) return p;
    if (byte < SPACE || byte === QUOTE || byte === BACKSLASH) return -1;
    if (byte < DELETE) continue;
    const isControl = byte === LEAD_OF_CONTROLS && (bytes[p + 1] as number) < BEHIND_CONTROLS;
    if (byte === DELETE || isControl) return -1;
  }
  return -1;
}

/** The length of the word, which becomes that of JSON; 0 if there is none. */
function rewriteWord(bytes: Buffer, p: number): number {
  for (const [word, json] of WORDS) {
    if (bytes[p] !== word[0]) continue;
    const end = p + word.length;
    const isWhole = OF_WORDS[bytes[p - 1] ?? 0] === 0 && OF_WORDS[bytes[end] ?? 0] === 0;
    if (!isWhole || word.compare(bytes, p, Math.min(end, bytes.length)) !== 0) return 0;
    json.copy(bytes, p);
    return word.length;
  }
  return 0;
}

function byteSet(bytes: string): Uint8Array {
  const set = new Uint8Array(256);
  for (const byte of Buffer.from(bytes)) set[byte] = 1;
  return set;
}
