import type { BatchIndex, JsonIndex } from '../batch-index.ts';
import { repeatedTextAt } from '../repeated-text.ts';
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipString,
  skipValue,
  spaceFrom,
  textOf,
  unescapeInto,
} from './grammar.ts';

/**
 * Readers of a scanned body; its bytes are valid JSON. All of them treat `null` as absent, except `typeAt`.
 */

export type JsonType = 'absent' | 'null' | 'boolean' | 'number' | 'string' | 'object' | 'array';

export function isJsonIndex(index: BatchIndex): index is JsonIndex {
  return index.type === 'native' || index.type === 'runs';
}

/** The type of a value, by its first byte. */
export function typeOfByte(byte: number | undefined): JsonType {
  switch (byte) {
    case QUOTE:
      return 'string';
    case OPEN_BRACE:
      return 'object';
    case OPEN_BRACKET:
      return 'array';
    case 0x6e:
      return 'null';
    case 0x74:
    case 0x66:
      return 'boolean';
    default:
      return 'number';
  }
}

/** The start of a field; 0 if it is absent. */
export function startOf(index: JsonIndex, position: number, slot: number): number {
  return index.ranges[position * index.stride + 2 * (slot + 1)] ?? 0;
}

export function endOf(index: JsonIndex, position: number, slot: number): number {
  return index.ranges[position * index.stride + 2 * (slot + 1) + 1] ?? 0;
}

/** Bytes of the field's source text. */
export function lengthAt(index: JsonIndex, position: number, slot: number): number {
  return endOf(index, position, slot) - startOf(index, position, slot);
}

export function typeAt(index: JsonIndex, position: number, slot: number): JsonType {
  const start = startOf(index, position, slot);
  return start === 0 ? 'absent' : typeOfByte(index.bytes[start]);
}

export function isPresent(index: JsonIndex, position: number, slot: number): boolean {
  const start = startOf(index, position, slot);
  return start !== 0 && index.bytes[start] !== 0x6e;
}

/** The source text of a field. */
export function textAt(index: JsonIndex, position: number, slot: number): string | undefined {
  if (!isPresent(index, position, slot)) return undefined;
  const { bytes } = index;
  return bytes.toString('utf8', startOf(index, position, slot), endOf(index, position, slot));
}

/** The value of a string field; undefined for all other types. */
export function stringAt(index: JsonIndex, position: number, slot: number): string | undefined {
  const start = startOf(index, position, slot);
  if (start === 0 || index.bytes[start] !== QUOTE) return undefined;
  return stringIn(index.bytes, start, endOf(index, position, slot));
}

/** The string at [start, end), quotes included. */
export function stringIn(bytes: Buffer, start: number, end: number): string {
  if (!hasBackslash(bytes, start + 1, end - 1)) {
    return bytes.toString('utf8', start + 1, end - 1);
  }
  return escapedStringIn(bytes, start, end);
}

/** The same for a string that is known to have escapes. */
export function escapedStringIn(bytes: Buffer, start: number, end: number): string {
  // A short text is decoded here, several times faster than by JSON.parse.
  if (end - start <= 8 * UNESCAPED.length) {
    const length = unescapeInto(bytes, start + 1, end - 1, UNESCAPED);
    if (length !== undefined) return UNESCAPED.toString('utf8', 0, length);
  }
  return String(JSON.parse(bytes.toString('utf8', start, end)));
}

const UNESCAPED = Buffer.alloc(4096);

/** A loop over a short text costs less than a view of it. */
function hasBackslash(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > 64) return bytes.subarray(start, end).includes(BACKSLASH);
  for (let at = start; at < end; at++) if (bytes[at] === BACKSLASH) return true;
  return false;
}

/** The value of a string, number, boolean or null; undefined for an object and an array. */
export function scalarIn(bytes: Buffer, start: number, end: number): unknown {
  switch (typeOfByte(bytes[start])) {
    case 'string':
      return stringIn(bytes, start, end);
    case 'number':
      return Number(bytes.toString('latin1', start, end));
    case 'boolean':
      return bytes[start] === 0x74;
    case 'null':
      return null;
    default:
      return undefined;
  }
}

/** The range of the item itself. */
export function itemRange(
  index: JsonIndex,
  position: number,
): readonly [start: number, end: number] {
  const record = position * index.stride;
  return [index.ranges[record] ?? 0, index.ranges[record + 1] ?? 0];
}

export function isObjectItem(index: JsonIndex, position: number): boolean {
  return index.bytes[itemRange(index, position)[0]] === OPEN_BRACE;
}

/** The item's path for the reason of a rejection: `events[3]`, `post[0]`, `patch[1]`. */
export function pathOf(index: JsonIndex, position: number): string {
  if (index.type === 'native') return `events[${position}]`;
  return position < index.posts ? `post[${position}]` : `patch[${position - index.posts}]`;
}

export type Member = { readonly key: string; readonly start: number; readonly end: number };

/**
 * Members of the object at `start` in their order, repeated ones included. A generator, because a client may send
 * millions.
 */
export function* membersOf(bytes: Buffer, start: number): Generator<Member, void> {
  const text = textOf(bytes);
  let at = spaceFrom(text, start + 1);
  while (bytes[at] === QUOTE) {
    const keyEnd = skipString(text, at + 1);
    const key = keyIn(bytes, at, keyEnd);
    const valueStart = skipColon(text, keyEnd);
    const end = skipValue(text, valueStart, 1);
    yield { key, start: valueStart, end };
    at = spaceFrom(text, end);
    if (bytes[at] === CLOSE_BRACE) break;
    if (bytes[at] === COMMA) at = spaceFrom(text, at + 1);
  }
}

/** The key at [start, end), quotes included. */
export function keyIn(bytes: Buffer, start: number, end: number): string {
  return hasBackslash(bytes, start + 1, end - 1)
    ? stringIn(bytes, start, end)
    : repeatedTextAt(bytes, start + 1, end - 1);
}

/** The last member with each name, of at most 4,096 bytes. It makes no text of other keys, of which an object may have a million. */
export function findMembers<Name extends string>(
  bytes: Buffer,
  start: number,
  names: readonly Name[],
): Partial<Record<Name, Member>> {
  // Without a prototype, because a name may be that of one of its members.
  const found: Partial<Record<Name, Member>> = Object.create(null);
  const longest = ESCAPE_BYTES * Math.max(...names.map(({ length }) => length));
  const text = textOf(bytes);
  let at = spaceFrom(text, start + 1);
  while (bytes[at] === QUOTE) {
    const { escapes } = text;
    const keyEnd = skipString(text, at + 1);
    const isEscaped = text.escapes !== escapes;
    // A key with escapes is decoded once, and not at all if it is longer than each name.
    const isShort = keyEnd - at - 2 <= longest;
    const length = isEscaped && isShort ? unescapeInto(bytes, at + 1, keyEnd - 1, UNESCAPED) : 0;
    const valueStart = skipColon(text, keyEnd);
    const end = skipValue(text, valueStart, 1);
    for (const name of names) {
      const isNamed = isEscaped
        ? isShort && length !== undefined && isTextAt(UNESCAPED, 0, length, name)
        : isTextAt(bytes, at + 1, keyEnd - 1, name);
      if (isNamed) found[name] = { key: name, start: valueStart, end };
    }
    at = spaceFrom(text, end);
    if (bytes[at] === CLOSE_BRACE) break;
    if (bytes[at] === COMMA) at = spaceFrom(text, at + 1);
  }
  return found;
}

/** The most bytes of a unit of UTF-16 in JSON. */
const ESCAPE_BYTES = 6;

/** Whether the UTF-8 at [start, end) is this text. */
function isTextAt(bytes: Buffer, start: number, end: number, wanted: string): boolean {
  const length = end - start;
  if (wanted.length > length) return false;
  if (wanted.length < length) {
    return NOT_ASCII.test(wanted) && bytes.toString('utf8', start, end) === wanted;
  }
  for (let at = 0; at < length; at++) {
    const byte = bytes[start + at] as number;
    if (byte > 0x7f || byte !== wanted.charCodeAt(at)) return false;
  }
  return true;
}

const NOT_ASCII = /\P{ASCII}/u;

type Element = { readonly start: number; readonly end: number };

/** Elements of the array at `start`; none for any other value. */
export function* elementsOf(bytes: Buffer, start: number): Generator<Element, void> {
  if (bytes[start] !== OPEN_BRACKET) return;
  const text = textOf(bytes);
  let at = spaceFrom(text, start + 1);
  while (bytes[at] !== CLOSE_BRACKET) {
    const end = skipValue(text, at, 1);
    yield { start: at, end };
    at = spaceFrom(text, end);
    if (bytes[at] === COMMA) at = spaceFrom(text, at + 1);
  }
}
