import type { Text } from '../json/grammar.ts';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACKET,
  QUOTE,
  skipScalar,
  skipString,
} from '../json/grammar.ts';

/**
 * Attributes in JSON as nearly all clients write them: `{"key":"…","value":{"stringValue":"…"}}`, or with an `intValue` of a few
 * digits, a `doubleValue`, a `boolValue`, or an `arrayValue` of texts, without white space and without escapes in the key. Hot path: it
 * needs no look-up of member names.
 */

const KEY = wordsOf('{"key":"');
const STRING = wordsOf(',"value":{"stringValue":');
const INTEGER = wordsOf(',"value":{"intValue":');
const DOUBLE = wordsOf(',"value":{"doubleValue":');
const FLAG = wordsOf(',"value":{"boolValue":');
const ARRAY = wordsOf(',"value":{"arrayValue":{"values":[{');
const ELEMENT = wordsOf('{"stringValue":"');
const KEY_BYTES = 8;
const STRING_BYTES = 24;
const INTEGER_BYTES = 21;
const DOUBLE_BYTES = 24;
const FLAG_BYTES = 22;
const ARRAY_BYTES = 35;
const ELEMENT_BYTES = 16;
/** The shortest attribute has more bytes than the tokens that are compared without a check of bounds. */
const SHORTEST = '{"key":"","value":{"stringValue":""}}'.length;
/** Integers with more digits may be out of range. */
const MAX_DIGITS = 15;
/** The containers within an attribute's own one: the value, the array, its list and its elements. */
const ARRAY_LEVELS = 5;

type PlainForm = 'text' | 'integer' | 'double' | 'flag' | 'texts';

/** The places in the attribute that was found last. They exclude the quotes of the key, of a text and of an integer. */
export const plainAttribute: {
  keyStart: number;
  keyEnd: number;
  form: PlainForm;
  valueStart: number;
  valueEnd: number;
  /** The number of escapes in a text. */
  escapes: number;
  /** Some of them are escapes such as `\u0041`. */
  hasUnicodeEscapes: boolean;
  /** The number of elements of an array of texts. */
  texts: number;
} = {
  keyStart: 0,
  keyEnd: 0,
  form: 'text',
  valueStart: 0,
  valueEnd: 0,
  escapes: 0,
  hasUnicodeEscapes: false,
  texts: 0,
};

/**
 * The position behind the plain attribute at `start`, and its places in `plainAttribute`; 0 for any other value, of which nothing is
 * counted in `text`. `depth` is the number of containers around it, and `lists` that of the arrays and kvlists, within which no array is
 * plain. Throws for an invalid string, number or flag.
 */
export function skipPlainAttribute(
  text: Text,
  start: number,
  depth: number,
  lists: number,
): number {
  const { bytes, view } = text;
  if (start + SHORTEST > bytes.length || depth + ARRAY_LEVELS > text.maxDepth) return 0;
  if (!areAt(view, start, KEY)) return 0;
  const { saved, escapes, unicodeEscapes } = text;
  const keyStart = start + KEY_BYTES;
  const keyEnd = skipString(text, keyStart) - 1;
  const hasPlainKey = text.escapes === escapes;
  const end = hasPlainKey ? skipPlainValue(text, keyEnd + 1, lists) : 0;
  if (end === 0) {
    text.saved = saved;
    text.escapes = escapes;
    text.unicodeEscapes = unicodeEscapes;
    return 0;
  }
  plainAttribute.keyStart = keyStart;
  plainAttribute.keyEnd = keyEnd;
  return end;
}

/** As `skipPlainAttribute`, from behind the key. */
function skipPlainValue(text: Text, start: number, lists: number): number {
  const { bytes, view } = text;
  if (start + STRING_BYTES + 2 > bytes.length) return 0;
  let end: number;
  if (areAt(view, start, STRING)) {
    if (bytes[start + STRING_BYTES] !== QUOTE) return 0;
    end = skipText(text, start + STRING_BYTES + 1);
  } else if (areAt(view, start, INTEGER) && bytes[start + INTEGER_BYTES - 1] === COLON) {
    end = skipQuotedDigits(bytes, start + INTEGER_BYTES);
  } else if (areAt(view, start, DOUBLE)) {
    end = skipDouble(text, start + DOUBLE_BYTES);
  } else if (areAt(view, start, FLAG) && isKeyEnd(bytes, start + FLAG_BYTES)) {
    end = skipFlag(text, start + FLAG_BYTES);
  } else {
    end = lists === 0 ? skipTexts(text, start) : -1;
  }
  return bytes[end] === CLOSE_BRACE && bytes[end + 1] === CLOSE_BRACE ? end + 2 : 0;
}

const COLON = 0x3a;

function isKeyEnd(bytes: Buffer, end: number): boolean {
  return bytes[end - 2] === QUOTE && bytes[end - 1] === COLON;
}

function skipText(text: Text, start: number): number {
  const { escapes, unicodeEscapes } = text;
  const end = skipString(text, start);
  plainAttribute.form = 'text';
  plainAttribute.valueStart = start;
  plainAttribute.valueEnd = end - 1;
  plainAttribute.escapes = text.escapes - escapes;
  plainAttribute.hasUnicodeEscapes = text.unicodeEscapes !== unicodeEscapes;
  return end;
}

/** The position behind the digits and their quotes; -1 if there are none or too many. */
function skipQuotedDigits(bytes: Buffer, start: number): number {
  if (bytes[start] !== QUOTE) return -1;
  let at = start + 1;
  while (isDigit(bytes[at]) && at - start <= MAX_DIGITS) at++;
  plainAttribute.form = 'integer';
  plainAttribute.valueStart = start + 1;
  plainAttribute.valueEnd = at;
  return at > start + 1 && bytes[at] === QUOTE ? at + 1 : -1;
}

/** The position behind the number; -1 for any other value, and for a long number. */
function skipDouble(text: Text, start: number): number {
  if (!isDigit(text.bytes[start])) return -1;
  const end = skipScalar(text, start);
  plainAttribute.form = 'double';
  plainAttribute.valueStart = start;
  plainAttribute.valueEnd = end;
  return end - start <= MAX_DIGITS ? end : -1;
}

const TRUE = 0x74;
const FALSE = 0x66;

function skipFlag(text: Text, start: number): number {
  const first = text.bytes[start];
  if (first !== TRUE && first !== FALSE) return -1;
  plainAttribute.form = 'flag';
  plainAttribute.valueStart = start;
  plainAttribute.valueEnd = skipScalar(text, start);
  return plainAttribute.valueEnd;
}

/** The position of the last but one brace; -1 for any other value. The range of the value is that of the list's elements. */
function skipTexts(text: Text, start: number): number {
  const { bytes, view } = text;
  const first = start + ARRAY_BYTES - 1;
  if (first + ELEMENT_BYTES > bytes.length || !areAt(view, start, ARRAY)) return -1;
  if (bytes[first - 2] !== COLON || bytes[first - 1] !== OPEN_BRACKET) return -1;
  let at = first;
  let count = 0;
  for (;;) {
    if (at + ELEMENT_BYTES > bytes.length || !areAt(view, at, ELEMENT)) return -1;
    at = skipString(text, at + ELEMENT_BYTES);
    if (bytes[at] !== CLOSE_BRACE) return -1;
    at++;
    count++;
    if (bytes[at] !== COMMA) break;
    at++;
  }
  plainAttribute.form = 'texts';
  plainAttribute.texts = count;
  plainAttribute.valueStart = first;
  plainAttribute.valueEnd = at;
  return bytes[at] === CLOSE_BRACKET && bytes[at + 1] === CLOSE_BRACE ? at + 2 : -1;
}

/** The range of each text, quotes included, of the array that was found last. */
export function* plainTexts(text: Text): Generator<readonly [start: number, end: number], void> {
  const { valueStart, valueEnd } = plainAttribute;
  for (let at = valueStart; at < valueEnd; ) {
    const start = at + ELEMENT_BYTES - 1;
    const end = skipString(text, start + 1);
    yield [start, end];
    // Behind the brace and the comma.
    at = end + 2;
  }
}

/** The digits of the integer that was found last. */
export function plainInteger(bytes: Buffer): number {
  let value = 0;
  for (let at = plainAttribute.valueStart; at < plainAttribute.valueEnd; at++) {
    value = value * 10 + (bytes[at] as number) - 0x30;
  }
  return value;
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
