import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipScalar,
  skipString,
  spaceFrom,
  type Text,
  textOf,
} from './grammar.ts';
import { stringIn } from './read.ts';

/**
 * Decodes scanned JSON whose keys come from clients. JSON.parse of V8 14.6 predicts the next key of an object from
 * earlier objects, and takes the raw text `b\u0000` for the key `b\` if it predicts that one: keys of one
 * client would change those of another. Keys with escapes are therefore read here. JSON.parse is safe for
 * text without a backslash.
 */
export function decodeJson(bytes: Buffer, start: number, end: number): unknown {
  const isPlain = !bytes.subarray(start, end).includes(BACKSLASH);
  if (isPlain) return JSON.parse(bytes.toString('utf8', start, end));
  return decodeSafely(bytes, start, Number);
}

/** As `decodeJson`, for text. */
export function decodeJsonText(text: string): unknown {
  if (!text.includes('\\')) return JSON.parse(text);
  const bytes = Buffer.from(text);
  return decodeJson(bytes, 0, bytes.length);
}

/** Decodes without JSON.parse, except for strings; `toNumber` converts the text of every number. */
export function decodeSafely(
  bytes: Buffer,
  start: number,
  toNumber: (text: string) => number | string,
): unknown {
  const text = textOf(bytes, Number.MAX_SAFE_INTEGER);
  return readValue(text, spaceFrom(text, start), toNumber);
}

/** The position behind the value that was read last. */
let next = 0;

function readValue(
  text: Text,
  start: number,
  toNumber: (text: string) => number | string,
): unknown {
  const { bytes } = text;
  switch (bytes[start]) {
    case QUOTE:
      next = skipString(text, start + 1);
      return stringIn(bytes, start, next);
    case OPEN_BRACE:
      return readObject(text, start, toNumber);
    case OPEN_BRACKET:
      return readArray(text, start, toNumber);
    default: {
      next = skipScalar(text, start);
      const scalar = bytes.toString('latin1', start, next);
      if (scalar === 'null') return null;
      if (scalar === 'true' || scalar === 'false') return scalar === 'true';
      return toNumber(scalar);
    }
  }
}

function readObject(
  text: Text,
  start: number,
  toNumber: (text: string) => number | string,
): Record<string, unknown> {
  const { bytes } = text;
  const object: Record<string, unknown> = {};
  next = spaceFrom(text, start + 1);
  while (bytes[next] !== CLOSE_BRACE) {
    // The first member follows the brace, every other one follows a comma.
    const keyStart = bytes[next] === QUOTE ? next : spaceFrom(text, next + 1);
    const keyEnd = skipString(text, keyStart + 1);
    const key = stringIn(bytes, keyStart, keyEnd);
    const value = readValue(text, skipColon(text, keyEnd), toNumber);
    if (key === '__proto__') define(object, key, value);
    else object[key] = value;
    next = spaceFrom(text, next);
  }
  next++;
  return object;
}

/** Adds a member `__proto__` as JSON.parse does, which leaves the prototype alone. */
function define(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

function readArray(
  text: Text,
  start: number,
  toNumber: (text: string) => number | string,
): unknown[] {
  const { bytes } = text;
  const items: unknown[] = [];
  next = spaceFrom(text, start + 1);
  if (bytes[next] === CLOSE_BRACKET) {
    next++;
    return items;
  }
  for (;;) {
    items.push(readValue(text, next, toNumber));
    next = spaceFrom(text, next);
    const isLast = bytes[next] === CLOSE_BRACKET;
    if (isLast) {
      next++;
      return items;
    }
    next = spaceFrom(text, next + 1);
  }
}
