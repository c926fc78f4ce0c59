import { BACKSLASH, type Text, unescapeInto } from './grammar.ts';

/**
 * The fields of an item that the scanner records: a small trie of keys, made once per format from a list of dotted
 * paths. The place of a path in the list is its slot: the place of its range in a record.
 */
export type PatternNode = {
  /** The key's bytes. */
  readonly key: Uint8Array;
  /** Bytes of the token, which is the key as in compact JSON: in quotes, with its colon. */
  readonly tokenLength: number;
  /** The token as words of four bytes; the last word overlaps the one before. */
  readonly words: readonly number[];
  /**
   * The known key that followed this one last time. Clients send their keys in a fixed order, so the scanner tries
   * it first; a wrong prediction costs one comparison.
   */
  next: PatternNode | undefined;
  readonly slot: number;
  /** The place of this field among those whose compact length is recorded; -1 for other fields. */
  readonly sized: number;
  /** Slots and sized places below this field, cleared when the field is repeated. */
  readonly slotsBelow: readonly number[];
  readonly sizedBelow: readonly number[];
  readonly children: KeyTable | undefined;
};

export type KeyTable = {
  /** Nodes by the length of their key; nodes of one length are in the order of the list. */
  readonly byLength: readonly (readonly PatternNode[] | undefined)[];
  /** The known key that was the first one last time. */
  next: PatternNode | undefined;
};

export type Pattern = {
  readonly fields: number;
  readonly sized: number;
  readonly root: KeyTable;
};

/**
 * `paths` are dotted (`extra.metadata`); every parent precedes its children. `sized` are the paths whose
 * compact JSON length is recorded, in the order of their places.
 */
export function compilePattern(paths: readonly string[], sized: readonly string[]): Pattern {
  return {
    fields: paths.length,
    sized: sized.length,
    root: tableOf('', paths, sized) ?? { byLength: [], next: undefined },
  };
}

function tableOf(
  prefix: string,
  paths: readonly string[],
  sized: readonly string[],
): KeyTable | undefined {
  const table: PatternNode[][] = [];
  let found = false;
  for (const [slot, path] of paths.entries()) {
    const name = path.slice(prefix.length);
    if (!path.startsWith(prefix) || name.includes('.')) continue;
    const key = Buffer.from(name);
    const below = `${path}.`;
    const token = Buffer.from(`"${name}":`);
    const node: PatternNode = {
      key,
      tokenLength: token.length,
      words: wordsOf(token),
      next: undefined,
      slot,
      sized: sized.indexOf(path),
      slotsBelow: [...paths.keys()].filter((other) => paths[other]?.startsWith(below)),
      sizedBelow: [...sized.keys()].filter((place) => sized[place]?.startsWith(below)),
      children: tableOf(below, paths, sized),
    };
    const sameLength = table[key.length] ?? [];
    sameLength.push(node);
    table[key.length] = sameLength;
    found = true;
  }
  if (!found) return undefined;
  // An array without holes has faster look-ups.
  const byLength = Array.from({ length: table.length }, (_, length) => table[length]);
  return { byLength, next: undefined };
}

/** The node for the key at [start, end), which has no escapes; undefined for unknown keys. */
export function nodeFor(
  table: KeyTable,
  bytes: Uint8Array,
  start: number,
  end: number,
): PatternNode | undefined {
  const length = end - start;
  if (length >= table.byLength.length) return undefined;
  const candidates = table.byLength[length];
  if (candidates === undefined) return undefined;
  next: for (let i = 0; i < candidates.length; i++) {
    const node = candidates[i] as PatternNode;
    const key = node.key;
    for (let k = 0; k < length; k++) {
      if (key[k] !== bytes[start + k]) continue next;
    }
    return node;
  }
  return undefined;
}

/** As `nodeFor`, for a key that may have escapes. */
export function nodeForAny(
  keys: KeyTable,
  bytes: Uint8Array,
  start: number,
  end: number,
): PatternNode | undefined {
  const node = nodeFor(keys, bytes, start, end);
  if (node !== undefined || !hasEscapes(bytes, start, end)) return node;
  const length = unescapeInto(bytes, start, end, UNESCAPED);
  return length === undefined ? undefined : nodeFor(keys, UNESCAPED, 0, length);
}

/** Holds the longest known key; known keys are ASCII. */
const UNESCAPED = Buffer.alloc(64);

function hasEscapes(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (bytes[at] === BACKSLASH) return true;
  }
  return false;
}

/** Hot path: the bytes at `start` are the key of the node as in compact JSON, colon included. */
export function isTokenAt(
  { words, tokenLength }: PatternNode,
  { bytes, view }: Text,
  start: number,
): boolean {
  const lastWord = start + tokenLength - 4;
  if (lastWord + 4 > bytes.length) return false;
  const last = words.length - 1;
  for (let i = 0; i < last; i++) {
    if (words[i] !== view.getInt32(start + 4 * i, true)) return false;
  }
  return words[last] === view.getInt32(lastWord, true);
}

/** A token has at least four bytes. */
function wordsOf(token: Buffer): number[] {
  const count = Math.ceil(token.length / 4);
  return Array.from({ length: count }, (_, i) =>
    token.readInt32LE(Math.min(4 * i, token.length - 4)),
  );
}
