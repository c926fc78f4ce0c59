import { Refusal } from '../errors.ts';

/**
 * The grammar of RFC 8259 over bytes, exactly as `JSON.parse` implements it, without building a string or an
 * object. Every `skip…` function takes the position of a token or value and returns the position behind it.
 * Invalid JSON throws an `invalid_json`. The bytes must be valid UTF-8.
 *
 * The scanner counts the bytes that compact JSON would save (`saved`). The compact length of a value follows
 * from the counts before and after it, without a second pass.
 */
export type Text = {
  readonly bytes: Buffer;
  /** The same bytes, for reading four at a time. */
  readonly view: DataView;
  /** The most nested containers, the root included. */
  readonly maxDepth: number;
  /** Bytes so far that compact JSON saves: white space, and longer spellings of escapes. */
  saved: number;
  /** Escapes so far; a string without escapes leaves the count unchanged. */
  escapes: number;
  /** Those of them that are spelled such as `\u0041`. */
  unicodeEscapes: number;
};

/** The most nested containers of a body; a wrapped run has some more (src/model/runs/wrap.ts). */
export const MAX_JSON_DEPTH = 512;
/** The upper bound of all limits, and the size of `CONTAINERS`. */
const MAX_DEPTH_EVER = 1024;

export function textOf(bytes: Buffer, maxDepth = MAX_JSON_DEPTH): Text {
  return {
    bytes,
    view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    maxDepth: Math.min(maxDepth, MAX_DEPTH_EVER),
    saved: 0,
    escapes: 0,
    unicodeEscapes: 0,
  };
}

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
export const QUOTE = 0x22;
const PLUS = 0x2b;
export const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const SLASH = 0x2f;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
const LETTER_U = 0x75;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

export function skipSpace(text: Text, start: number): number {
  const bytes = text.bytes;
  let at = start;
  for (;;) {
    const c = bytes[at] as number;
    if (c !== SPACE && c !== LINE_FEED && c !== CARRIAGE_RETURN && c !== TAB) break;
    at++;
  }
  text.saved += at - start;
  return at;
}

/** Any value; `depth` is the number of containers around it. Iterative, so nesting needs no stack. */
export function skipValue(text: Text, start: number, depth: number): number {
  const { bytes } = text;
  const isObject = CONTAINERS;
  let at = start;
  let level = depth;
  for (;;) {
    const c = bytes[at] as number;
    if (c === QUOTE) {
      at = skipString(text, at + 1);
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      level = deeper(text, level);
      isObject[level] = c === OPEN_BRACE ? 1 : 0;
      at = open(text, at + 1, c);
      if (at >= 0) continue;
      // `open` returned the negated end of an empty container.
      at = -at;
      level--;
    } else {
      at = skipScalar(text, at);
    }
    // Behind a value: close the containers that end here, or continue with the next member.
    for (;;) {
      if (level === depth) return at;
      let d = bytes[at] as number;
      if (d <= SPACE) {
        at = skipSpace(text, at);
        d = bytes[at] as number;
      }
      if (d === COMMA) {
        at = isObject[level] === 1 ? skipKey(text, at + 1) : spaceFrom(text, at + 1);
        break;
      }
      if (d !== (isObject[level] === 1 ? CLOSE_BRACE : CLOSE_BRACKET)) return fail(text, at);
      at++;
      level--;
    }
  }
}

/** 1 for every open container that is an object. Shared by all calls, as none is ever re-entered. */
const CONTAINERS = new Uint8Array(MAX_DEPTH_EVER + 1);

/** The start of the first value behind an opening bracket, or the negated end of an empty container. */
function open(text: Text, start: number, bracket: number): number {
  const at = spaceFrom(text, start);
  const c = text.bytes[at] as number;
  if (bracket === OPEN_BRACKET) return c === CLOSE_BRACKET ? -(at + 1) : at;
  if (c === CLOSE_BRACE) return -(at + 1);
  return skipKey(text, at);
}

/** White space, a key and its colon; returns the start of the member's value. */
function skipKey(text: Text, start: number): number {
  let at = spaceFrom(text, start);
  if (text.bytes[at] !== QUOTE) return fail(text, at);
  at = skipString(text, at + 1);
  return skipColon(text, at);
}

/** The colon behind a key, and white space around it. */
export function skipColon(text: Text, start: number): number {
  const at = spaceFrom(text, start);
  if (text.bytes[at] !== COLON) return fail(text, at);
  return spaceFrom(text, at + 1);
}

/** As `skipSpace`, but fast if there is no white space. */
export function spaceFrom(text: Text, at: number): number {
  return (text.bytes[at] as number) <= SPACE ? skipSpace(text, at) : at;
}

/** The level inside a container that opens at `level`. Throws if that is one too many. */
export function deeper(text: Text, level: number): number {
  if (level >= text.maxDepth) {
    throw new Refusal('invalid_json', `The body is nested deeper than ${text.maxDepth} levels.`);
  }
  return level + 1;
}

/**
 * A string, from behind its opening quote. Reads words of four bytes and skips those without a quote, a backslash
 * and a control character; a bit mask finds the first hit. Flipping bit 1 moves the quote next to the
 * control characters, below 0x21, so that one subtraction finds both. (The subtraction borrows only from bytes
 * above a hit, so the lowest hit is exact.)
 */
export function skipString(text: Text, start: number): number {
  const { bytes, view } = text;
  const lastWord = bytes.length - 4;
  let at = start;
  for (;;) {
    while (at <= lastWord) {
      const word = view.getInt32(at, true);
      const hits =
        (((word ^ 0x02020202) - 0x21212121) | ((word ^ 0x5c5c5c5c) - 0x01010101)) &
        ~word &
        0x80808080;
      if (hits !== 0) {
        at += (31 - Math.clz32(hits & -hits)) >> 3;
        break;
      }
      at += 4;
    }
    const c = bytes[at] as number;
    if (c === QUOTE) return at + 1;
    if (c === BACKSLASH) at = skipEscape(text, at);
    else if (c >= SPACE) at++;
    else return fail(text, at);
  }
}

/** An escape, from its backslash; adds the bytes that compact JSON saves on it. */
function skipEscape(text: Text, start: number): number {
  text.escapes++;
  switch (text.bytes[start + 1]) {
    case QUOTE:
    case BACKSLASH:
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return start + 2;
    case SLASH:
      text.saved += 1;
      return start + 2;
    case LETTER_U:
      return skipUnicodeEscape(text, start);
    default:
      return fail(text, start + 1);
  }
}

function skipUnicodeEscape(text: Text, start: number): number {
  text.unicodeEscapes++;
  const unit = hex4(text, start + 2);
  if (unit < 0x80) {
    text.saved += 6 - compactAscii(unit);
  } else if (unit < 0x800) {
    text.saved += 4;
  } else if (unit < 0xd800 || unit > 0xdfff) {
    text.saved += 3;
  } else if (
    unit < 0xdc00 &&
    text.bytes[start + 6] === BACKSLASH &&
    text.bytes[start + 7] === LETTER_U
  ) {
    const low = hex4(text, start + 8);
    if (low >= 0xdc00 && low <= 0xdfff) {
      text.saved += 8;
      return start + 12;
    }
  }
  // JSON.stringify writes a lone surrogate as an escape of six bytes, too.
  return start + 6;
}

/** Bytes of an ASCII character in a compact JSON string. */
function compactAscii(unit: number): number {
  if (unit >= SPACE) return unit === QUOTE || unit === BACKSLASH ? 2 : 1;
  return unit === 8 || unit === 9 || unit === 10 || unit === 12 || unit === 13 ? 2 : 6;
}

function hex4(text: Text, start: number): number {
  let unit = 0;
  for (let at = start; at < start + 4; at++) {
    const c = text.bytes[at] as number;
    const lower = c | 0x20;
    if (c >= ZERO && c <= NINE) unit = (unit << 4) | (c - ZERO);
    else if (lower >= 0x61 && lower <= 0x66) unit = (unit << 4) | (lower - 0x57);
    else return fail(text, at);
  }
  return unit;
}

/**
 * Decodes the content of a string at [start, end) into `target`, as UTF-8, and returns its length. Undefined if it does not
 * fit, or if it has half of a surrogate pair, which UTF-8 cannot hold.
 */
export function unescapeInto(
  bytes: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
): number | undefined {
  let length = 0;
  for (let at = start; at < end; at++) {
    let c = bytes[at] as number;
    if (c === BACKSLASH) {
      const kind = bytes[++at] ?? 0;
      if (kind === LETTER_U) {
        c = unitAt(bytes, at);
        at += 4;
        if (c > 0x7f) {
          const low = isHigh(c) && bytes[at + 2] === LETTER_U ? unitAt(bytes, at + 2) : 0;
          const isPair = bytes[at + 1] === BACKSLASH && low >= 0xdc00 && low <= 0xdfff;
          if ((c & 0xf800) === 0xd800 && !isPair) return undefined;
          if (isPair) at += 6;
          const point = isPair ? 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff) : c;
          length = writeUtf8(target, length, point);
          if (length > target.length) return undefined;
          continue;
        }
      } else if (kind === QUOTE || kind === BACKSLASH) {
        c = kind;
      } else {
        c = SHORT_ESCAPES.get(kind) ?? kind;
      }
    }
    if (length === target.length) return undefined;
    target[length++] = c;
  }
  return length;
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** The value of the four hexadecimal digits behind a `u`. */
function unitAt(bytes: Uint8Array, letter: number): number {
  let unit = 0;
  for (let at = letter + 1; at <= letter + 4; at++) {
    const digit = bytes[at] ?? 0;
    // The low four bits of a letter are its place in the alphabet, from 1.
    unit = unit * 16 + (digit & 0x0f) + (digit > NINE ? 9 : 0);
  }
  return unit;
}

/** Writes a code point above U+007F; returns the position behind it. Bytes behind the end of the target are lost. */
function writeUtf8(target: Uint8Array, start: number, point: number): number {
  const more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  target[start] = ((0xf0 << (3 - more)) & 0xff) | (point >> (6 * more));
  for (let i = 1; i <= more; i++) {
    target[start + i] = 0x80 | ((point >> (6 * (more - i))) & 0x3f);
  }
  return start + more + 1;
}

/** The characters of the escapes with the letters b, f, n, r and t. */
const SHORT_ESCAPES: ReadonlyMap<number, number> = new Map([
  [0x62, 8],
  [0x66, 12],
  [0x6e, 10],
  [0x72, 13],
  [0x74, 9],
]);

/** A number, `true`, `false` or `null`. */
export function skipScalar(text: Text, start: number): number {
  switch (text.bytes[start]) {
    case 0x74:
      return skipWord(text, start, TRUE);
    case 0x66:
      return skipWord(text, start, FALSE);
    case 0x6e:
      return skipWord(text, start, NULL);
    default:
      return skipNumber(text, start);
  }
}

const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');
const NULL = Buffer.from('null');

function skipWord(text: Text, start: number, word: Buffer): number {
  for (let i = 1; i < word.length; i++) {
    if (text.bytes[start + i] !== word[i]) return fail(text, start + i);
  }
  return start + word.length;
}

function skipNumber(text: Text, start: number): number {
  const { bytes } = text;
  let at = bytes[start] === MINUS ? start + 1 : start;
  if (bytes[at] === ZERO) at++;
  else at = skipDigits(text, at);
  if (bytes[at] === DOT) at = skipDigits(text, at + 1);
  if (((bytes[at] as number) | 0x20) === 0x65) {
    at++;
    if (bytes[at] === PLUS || bytes[at] === MINUS) at++;
    at = skipDigits(text, at);
  }
  return at;
}

function skipDigits(text: Text, start: number): number {
  const { bytes } = text;
  let at = start;
  for (;;) {
    const c = bytes[at] as number;
    if (!(c >= ZERO && c <= NINE)) break;
    at++;
  }
  if (at === start) return fail(text, at);
  return at;
}

/** The message has the position of the error, and never the content of the body. */
export function fail(text: Text, at: number): never {
  const where = at >= text.bytes.length ? 'ends too early' : `is not valid JSON at byte ${at}`;
  throw new Refusal('invalid_json', `The body ${where}.`);
}
