import { isUtf8 } from 'node:buffer';
import type { JsonIndex } from '../batch-index.ts';
import { Refusal } from '../errors.ts';
import type { ScanLimits } from '../format-module.ts';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  deeper,
  fail,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipSpace,
  skipString,
  skipValue,
  spaceFrom,
  type Text,
  textOf,
} from './grammar.ts';
import {
  compilePattern,
  isTokenAt,
  type KeyTable,
  nodeForAny,
  type Pattern,
  type PatternNode,
} from './pattern.ts';

/**
 * The accept path of native and run bodies: one pass that checks the grammar, bounds the nesting and records the
 * ranges of items and their known fields.
 *
 *   root object ── a known array (`events`; `post`, `patch`) ── items ── fields of the pattern
 *        │                     everything else: skipValue               │
 *        └── a repeated key starts over: the last one counts            └── ranges and compact lengths
 */
export type DocumentShape = {
  readonly type: JsonIndex['type'];
  readonly pattern: Pattern;
  /** Keys of the root that hold the items, in the order of their positions. */
  readonly arrays: readonly string[];
  /** Every array must be present. */
  readonly required: boolean;
};

export type DocumentScanner = (bytes: Buffer, limits: ScanLimits) => JsonIndex;

/** A scanner for one shape. It reuses its working memory for every body, as no scan is ever re-entered. */
export function documentScanner(shape: DocumentShape): DocumentScanner {
  const roots = compilePattern(shape.arrays, []).root;
  const tables = shape.arrays.map((key) => newTable(key, shape.pattern));
  return (bytes, limits) => {
    if (!isUtf8(bytes)) throw new Refusal('invalid_json', 'The body is not valid UTF-8.');
    const text = textOf(bytes, limits.maxDepth);
    for (const table of tables) reset(table, limits);
    const start = spaceFrom(text, 0);
    const isObject = bytes[start] === OPEN_BRACE;
    const end = isObject ? scanRoot(text, start, roots, tables) : skipValue(text, start, 0);
    endOfBody(text, end);
    if (!isObject) throw new Refusal('invalid_request', 'The body must be a JSON object.');
    return indexFrom(bytes, limits, shape, tables);
  };
}

/** Throws unless the bytes are exactly one JSON value within the nesting limit. */
export function checkJson(bytes: Buffer, maxDepth?: number): void {
  if (!isUtf8(bytes)) throw new Refusal('invalid_json', 'The body is not valid UTF-8.');
  const text = textOf(bytes, maxDepth);
  endOfBody(text, skipValue(text, spaceFrom(text, 0), 0));
}

function endOfBody(text: Text, at: number): void {
  const end = skipSpace(text, at);
  if (end < text.bytes.length) fail(text, end);
}

/** The items of one array during a scan. */
type ItemTable = {
  readonly key: string;
  readonly pattern: Pattern;
  readonly stride: number;
  maxItems: number;
  found: 'nothing' | 'array' | 'other';
  count: number;
  /** Records that were written since the last clear. */
  used: number;
  ranges: Uint32Array;
  sizes: Uint32Array;
};

function newTable(key: string, pattern: Pattern): ItemTable {
  const stride = 2 * (pattern.fields + 1);
  return {
    key,
    pattern,
    stride,
    maxItems: 0,
    found: 'nothing',
    count: 0,
    used: 0,
    ranges: new Uint32Array(FIRST_ITEMS * stride),
    sizes: new Uint32Array(FIRST_ITEMS * pattern.sized),
  };
}

function reset(table: ItemTable, limits: ScanLimits): void {
  table.maxItems = limits.maxItems;
  table.found = 'nothing';
  clear(table);
}

/** Clears all records at once: a fill for every record would cost more than reading a short item. */
function clear(table: ItemTable): void {
  table.ranges.fill(0, 0, table.used * table.stride);
  table.sizes.fill(0, 0, table.used * table.pattern.sized);
  table.used = 0;
  table.count = 0;
}

/** Items that a new table has room for; the room doubles as needed. */
const FIRST_ITEMS = 64;

function scanRoot(
  text: Text,
  start: number,
  roots: KeyTable,
  tables: readonly ItemTable[],
): number {
  const { bytes } = text;
  const depth = deeper(text, 0);
  let at = spaceFrom(text, start + 1);
  if (bytes[at] === CLOSE_BRACE) return at + 1;
  for (;;) {
    if (bytes[at] !== QUOTE) fail(text, at);
    const keyStart = at + 1;
    const keyEnd = skipString(text, keyStart);
    const table = tables[nodeForAny(roots, bytes, keyStart, keyEnd - 1)?.slot ?? -1];
    at = skipColon(text, keyEnd);
    if (table === undefined) {
      at = skipValue(text, at, depth);
    } else {
      clear(table);
      table.found = bytes[at] === OPEN_BRACKET ? 'array' : 'other';
      at = table.found === 'array' ? scanArray(text, at, table) : skipValue(text, at, depth);
    }
    at = spaceFrom(text, at);
    if (bytes[at] === CLOSE_BRACE) return at + 1;
    if (bytes[at] !== COMMA) fail(text, at);
    at = spaceFrom(text, at + 1);
  }
}

/** Items of an array of the root, at depth 2; the item's own container is the third. */
function scanArray(text: Text, start: number, table: ItemTable): number {
  const { bytes } = text;
  const depth = deeper(text, 1);
  let at = spaceFrom(text, start + 1);
  if (bytes[at] === CLOSE_BRACKET) return at + 1;
  for (;;) {
    at = scanItem(text, at, depth, table);
    at = spaceFrom(text, at);
    if (bytes[at] === CLOSE_BRACKET) return at + 1;
    if (bytes[at] !== COMMA) fail(text, at);
    at = spaceFrom(text, at + 1);
  }
}

function scanItem(text: Text, start: number, depth: number, table: ItemTable): number {
  const position = table.count++;
  // One item too many refuses the body, but only if all of it is valid JSON.
  if (position >= table.maxItems) return skipValue(text, start, depth);
  const record = position * table.stride;
  const sizes = position * table.pattern.sized;
  if (position >= table.used) table.used = position + 1;
  makeRoom(table, position);
  const isObject = text.bytes[start] === OPEN_BRACE;
  const end = isObject
    ? scanObject(text, start, depth, table, table.pattern.root, record, sizes)
    : skipValue(text, start, depth);
  table.ranges[record] = start;
  table.ranges[record + 1] = end;
  return end;
}

/** An object with known keys. Recursion is as deep as the pattern at most. */
function scanObject(
  text: Text,
  start: number,
  outer: number,
  table: ItemTable,
  keys: KeyTable,
  record: number,
  sizes: number,
): number {
  const { bytes } = text;
  const depth = deeper(text, outer);
  let at = spaceFrom(text, start + 1);
  if (bytes[at] === CLOSE_BRACE) return at + 1;
  let before: KeyTable | PatternNode = keys;
  for (;;) {
    if (bytes[at] !== QUOTE) fail(text, at);
    let node: PatternNode | undefined = before.next;
    if (node !== undefined && isTokenAt(node, text, at)) {
      at = spaceFrom(text, at + node.tokenLength);
      before = node;
    } else {
      const keyEnd = skipString(text, at + 1);
      node = nodeForAny(keys, bytes, at + 1, keyEnd - 1);
      at = skipColon(text, keyEnd);
      if (node !== undefined) before = before.next = node;
    }
    at =
      node === undefined
        ? skipValue(text, at, depth)
        : scanField(text, at, depth, table, node, record, sizes);
    at = spaceFrom(text, at);
    const c = bytes[at] as number;
    if (c === CLOSE_BRACE) return at + 1;
    if (c !== COMMA) fail(text, at);
    at = spaceFrom(text, at + 1);
  }
}

function scanField(
  text: Text,
  start: number,
  depth: number,
  table: ItemTable,
  node: PatternNode,
  record: number,
  sizes: number,
): number {
  const slot = record + 2 * (node.slot + 1);
  if (table.ranges[slot] !== 0) forgetBelow(table, node, record, sizes);
  const saved = text.saved;
  const first = text.bytes[start];
  let end: number;
  if (first === QUOTE) {
    end = skipString(text, start + 1);
  } else if (first === OPEN_BRACE && node.children !== undefined) {
    end = scanObject(text, start, depth, table, node.children, record, sizes);
  } else {
    end = skipValue(text, start, depth);
  }
  table.ranges[slot] = start;
  table.ranges[slot + 1] = end;
  if (node.sized >= 0) table.sizes[sizes + node.sized] = end - start - (text.saved - saved);
  return end;
}

/** Clears the fields below a repeated key, whose last value replaces the earlier ones. */
function forgetBelow(table: ItemTable, node: PatternNode, record: number, sizes: number): void {
  for (const slot of node.slotsBelow) {
    table.ranges[record + 2 * (slot + 1)] = 0;
    table.ranges[record + 2 * (slot + 1) + 1] = 0;
  }
  for (const place of node.sizedBelow) table.sizes[sizes + place] = 0;
}

function makeRoom(table: ItemTable, position: number): void {
  if ((position + 1) * table.stride <= table.ranges.length) return;
  table.ranges = doubled(table.ranges);
  table.sizes = doubled(table.sizes);
}

function doubled(array: Uint32Array): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(array.length * 2);
  larger.set(array);
  return larger;
}

function indexFrom(
  bytes: Buffer,
  limits: ScanLimits,
  shape: DocumentShape,
  tables: readonly ItemTable[],
): JsonIndex {
  let count = 0;
  for (const table of tables) {
    const missing = table.found === 'nothing' && shape.required;
    if (missing || table.found === 'other') {
      throw new Refusal('invalid_request', `\`${table.key}\` must be an array.`);
    }
    count += table.count;
  }
  if (count > limits.maxItems) {
    const message = `The request has ${count} items; at most ${limits.maxItems} are allowed.`;
    throw new Refusal('too_many_events', message);
  }
  const stride = 2 * (shape.pattern.fields + 1);
  return {
    type: shape.type,
    bytes,
    count,
    ranges: joined(tables.map((table) => table.ranges.subarray(0, table.count * stride))),
    stride,
    sizes: joined(
      tables.map((table) => table.sizes.subarray(0, table.count * shape.pattern.sized)),
    ),
    posts: shape.type === 'runs' ? (tables[0]?.count ?? 0) : 0,
  };
}

function joined(parts: readonly Uint32Array[]): Uint32Array {
  const whole = new Uint32Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
