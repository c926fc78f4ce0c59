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
 * Decodes JSON whose keys somebody else chose. V8 14.6 guesses the next key of an object from objects it
 * has seen before, and takes the raw text `b\u0000` for the key `b\` where that one is expected: one
 * client's keys would change those of another. Keys with escapes are therefore read here; text without
 * any backslash is safe with, and left to, JSON.parse. The text must be known to be JSON.
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

/** Never uses JSON.parse for an object; `toNumber` gets the text of each number. */
export function decodeSafely(
  bytes: Buffer,
  start: number,
  toNumber: (text: string) => number | string,
): unknown {
  const text = textOf(bytes, Number.MAX_SAFE_INTEGER);
  return readValue(text, spaceFrom(text, start), toNumber);
}

/** Where the text goes on after what was read last. */
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
    // The first member stands behind the brace, any other behind a comma.
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

/** As JSON.parse has it: a member of that name, and no change of the prototype. */
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
