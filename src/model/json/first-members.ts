import { randomBytes } from 'node:crypto';
import {
  CLOSE_BRACE,
  COMMA,
  QUOTE,
  skipColon,
  skipString,
  skipValue,
  spaceFrom,
  textOf,
  unescapeInto,
} from './grammar.ts';
import { keyIn, type Member, membersOf } from './read.ts';

/**
 * The first `most` members of the object at `start`, and later ones that repeat one of their names. No text is made of any other
 * name: a client may send millions, each of which takes a microsecond.
 */
export function* firstMembersOf(
  bytes: Buffer,
  start: number,
  most: number,
): Generator<Member, void> {
  const text = textOf(bytes);
  let count = 0;
  let first: Names | undefined;
  let at = spaceFrom(text, start + 1);
  while (bytes[at] === QUOTE) {
    const { escapes } = text;
    const keyEnd = skipString(text, at + 1);
    const isEscaped = text.escapes !== escapes;
    const valueStart = skipColon(text, keyEnd);
    const end = skipValue(text, valueStart, 1);
    if (count++ === most) first = namesOf(bytes, start, most);
    if (first === undefined || mayHave(first, bytes, at + 1, keyEnd - 1, isEscaped)) {
      const key = keyIn(bytes, at, keyEnd);
      if (first === undefined || first.texts.has(key)) yield { key, start: valueStart, end };
    }
    at = spaceFrom(text, end);
    if (bytes[at] === CLOSE_BRACE) break;
    if (bytes[at] === COMMA) at = spaceFrom(text, at + 1);
  }
}

type Names = {
  readonly texts: ReadonlySet<string>;
  /** A bit for each hash; bits of other names are rare. */
  readonly bits: Uint8Array;
};

const BITS_OF_NAME = 16;

function namesOf(bytes: Buffer, start: number, most: number): Names {
  const texts = new Set<string>();
  let count = 0;
  for (const { key } of membersOf(bytes, start)) {
    if (count++ === most) break;
    texts.add(key);
  }
  const bits = new Uint8Array(2 ** Math.ceil(Math.log2(most * BITS_OF_NAME)) / 8);
  for (const text of texts) {
    const name = Buffer.from(text);
    const hash = hashOf(name, 0, name.length);
    bits[placeOf(hash, bits)] = (bits[placeOf(hash, bits)] ?? 0) | (1 << (hash & 7));
  }
  return { texts, bits };
}

/** Whether the name at [start, end) may be in the set. A name with escapes is not if it is too long to be decoded. */
function mayHave(
  { bits }: Names,
  bytes: Buffer,
  start: number,
  end: number,
  isEscaped: boolean,
): boolean {
  let hash: number;
  if (isEscaped) {
    const length = unescapeInto(bytes, start, end, UNESCAPED);
    if (length === undefined) return false;
    hash = hashOf(UNESCAPED, 0, length);
  } else {
    hash = hashOf(bytes, start, end);
  }
  return ((bits[placeOf(hash, bits)] ?? 0) & (1 << (hash & 7))) !== 0;
}

const UNESCAPED = Buffer.alloc(4096);
/** Each process draws one, so that no client can choose names with the hashes of other ones. */
const SEED = randomBytes(4).readInt32LE();

function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = SEED;
  for (let at = start; at < end; at++) {
    hash = Math.imul(hash ^ (bytes[at] as number), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash >>> 0;
}

function placeOf(hash: number, bits: Uint8Array): number {
  return (hash >>> 3) & (bits.length - 1);
}
