import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { tuples } from './rows.ts';

/** Bounds the search of gaps in which nothing is readable, at some seconds. */
const MOST_PROBES = 10_000;
/** The numbers behind the largest readable one at which further rows are looked for. */
const BEHIND_END = 1 << 20;
/** The size of the first range beyond a damaged end. */
const LEAST_DISTANCE = 64;
const NO_BYTES = new Uint8Array(0);
/** No text begins with this byte. */
const LAST_BYTES = Uint8Array.of(0xff);

type Cells = readonly SQLOutputValue[];
export type KeyColumn = {
  readonly name: string;
  /** `ANY` is a text or a BLOB. */
  readonly type: 'INTEGER' | 'TEXT' | 'BLOB' | 'ANY';
};
/** A part of the keys that a column of the key has; a column of any type has two. */
type KeyPart = { readonly cell: string; readonly isNumber: boolean };
/** The bytes of a text or BLOB. */
type Part = number | Uint8Array;
type Key = readonly Part[];
/** From a key on, and before another. */
type Range = { readonly low: Key; readonly high: Key };
/** The range of the values that were read, and the bytes of each column's texts in their order. */
type Known = Range & { readonly alphabets: readonly (readonly number[])[] };
/** `last`: the key of the last row that was read; undefined if none was. */
type Read = { readonly last: Key | undefined; readonly isWhole: boolean };
type Direction = 'ASC' | 'DESC';
type Reading = (direction: Direction, range?: Range) => Read;

export type KeyedTable = {
  readonly name: string;
  /** The primary key, or the row id: the order of the rows in the file. */
  readonly key: readonly KeyColumn[];
  readonly columns: readonly string[];
};

/**
 * Copies the rows of a table in the order of their keys. A scan ends at the first damage, so the rows between two damaged pages are
 * read from within: from a key in the middle in both directions, and the same in what is left.
 *
 *   ────▶ ✗ ?   ?   ?   ? ✗ ◀────      ────▶ ✗ ◀── middle ──▶ ✗ ◀────
 *
 * `copy` returns whether it copied the row. Returns whether every row was read and copied.
 */
export function copyByKey(
  old: DatabaseSync,
  table: KeyedTable,
  copy: (cells: Cells) => boolean,
): boolean {
  const parts = table.key.flatMap(partsOf);
  let isSound = true;
  const bounds = new Bounds(parts);
  const read: Reading = (direction, range) => {
    let last: Key | undefined;
    try {
      for (const cells of readable(old, table, direction, range)) {
        // A row that is refused is none, and nothing follows from its key.
        if (!copy(cells.slice(parts.length))) {
          isSound = false;
          continue;
        }
        const next = parts.map(({ isNumber }, i) =>
          isNumber ? Number(cells[i]) : bytesOf(cells[i]),
        );
        if (range !== undefined && isBehind(next, range, direction)) break;
        // Another page has the place of one of the table.
        if (last !== undefined && !isInOrder(last, next, direction)) isSound = false;
        last = next;
        bounds.add(next);
      }
      return { last, isWhole: true };
    } catch {
      return { last, isWhole: false };
    }
  };
  const first = read('ASC');
  if (first.isWhole) return isSound;
  const { last: end } = read('DESC');
  const gap = gapBetween(first.last, end, bounds.outer());
  const cuts = [...cutsByPrefixes(bounds.inner()), ...cutsByDistance(first.last, end, bounds)];
  readGaps(cutAt(cuts, gap), bounds, read);
  return false;
}

/** The range that two scans left. Keys of rows in wrong places may say that it is empty: then the gap is anywhere. */
function gapBetween(first: Key | undefined, last: Key | undefined, outer: Range): Range {
  const gap = { low: first ?? outer.low, high: last ?? outer.high };
  return compare(gap.low, gap.high) < 0 ? gap : outer;
}

function isInOrder(a: Key, b: Key, direction: Direction): boolean {
  return direction === 'ASC' ? compare(a, b) < 0 : compare(a, b) > 0;
}

function isBehind(key: Key, { low, high }: Range, direction: Direction): boolean {
  return direction === 'ASC' ? compare(key, high) >= 0 : compare(key, low) < 0;
}

/**
 * The rows from the beginning of the range on; in descending order from its end. A damaged page has rows with any key, so SQLite does not
 * decide where the range is over.
 */
function readable(
  old: DatabaseSync,
  { name, key, columns }: KeyedTable,
  direction: Direction,
  range: Range | undefined,
): Iterable<SQLOutputValue[]> {
  const start = range && placesOf(key, direction === 'ASC' ? range.low : range.high);
  const names = key.map((column) => column.name).join(', ');
  const from = `(${names}) ${direction === 'ASC' ? '>=' : '<'} (${start?.map(({ place }) => place)})`;
  // A statement that has met damage fails once more when it begins again.
  const query = tuples<SQLOutputValue[]>(
    old,
    `SELECT ${[...key.flatMap(partsOf).map(({ cell }) => cell), ...columns].join(', ')}
     FROM ${name} NOT INDEXED ${start === undefined ? '' : `WHERE ${from}`}
     ORDER BY ${key.map((column) => `${column.name} ${direction}`).join(', ')}`,
  );
  return query.iterate(...(start?.map(({ value }) => value) ?? []));
}

/** Not every number is a safe integer, and not all bytes are a JavaScript string. Of a column of any type, texts come before BLOBs. */
function partsOf({ name, type }: KeyColumn): KeyPart[] {
  if (type === 'INTEGER') return [{ cell: `CAST(${name} AS TEXT)`, isNumber: true }];
  const bytes = { cell: `CAST(${name} AS BLOB)`, isNumber: false };
  return type === 'ANY' ? [{ cell: `typeof(${name}) = 'blob'`, isNumber: true }, bytes] : [bytes];
}

/** The values of a key, and the place of each in a statement. With the `+` SQLite seeks by every column of the key. */
function placesOf(key: readonly KeyColumn[], parts: Key): { place: string; value: Part }[] {
  const left = [...parts];
  return key.map(({ type }) => {
    const isText = type === 'ANY' ? left.shift() === 0 : type === 'TEXT';
    return { place: isText ? '+CAST(? AS TEXT)' : '?', value: left.shift() ?? NO_BYTES };
  });
}

function bytesOf(cell: SQLOutputValue | undefined): Uint8Array {
  return cell instanceof Uint8Array ? cell : NO_BYTES;
}

/** The values between which each column of the lost rows is likely to be. */
class Bounds {
  readonly #key: readonly KeyPart[];
  readonly #smallest: Part[] = [];
  readonly #largest: Part[] = [];
  readonly #alphabets: readonly Set<number>[];

  constructor(key: readonly KeyPart[]) {
    this.#key = key;
    this.#alphabets = key.map(() => new Set());
  }

  add(key: Key): void {
    for (const [i, part] of key.entries()) {
      if (compareParts(part, this.#smallest[i] ?? part) <= 0) this.#smallest[i] = part;
      if (compareParts(part, this.#largest[i] ?? part) >= 0) this.#largest[i] = part;
      if (typeof part !== 'number') for (const byte of part) this.#alphabets[i]?.add(byte);
    }
  }

  /** Around all rows, also those that a damaged end hides. */
  outer(): Range {
    const low = this.#key.map(({ isNumber }, i) =>
      isNumber ? Math.min(0, Number(this.#smallest[i] ?? 0)) : NO_BYTES,
    );
    const high = this.#key.map(({ isNumber }, i) =>
      isNumber ? Number(this.#largest[i] ?? 0) + BEHIND_END : LAST_BYTES,
    );
    return { low, high };
  }

  /** The rows that were read have similar values in all columns but the first. */
  inner(): Known {
    const { low, high } = this.outer();
    return {
      low: low.map((part, i) => this.#smallest[i] ?? part),
      high: high.map((part, i) => this.#largest[i] ?? part),
      alphabets: this.#alphabets.map((bytes) => [...bytes].sort((a, b) => a - b)),
    };
  }
}

/**
 * Texts often begin alike, as ids do. If a damaged end hides where a gap begins or ends, halves of the distance would take too many probes to
 * come near them, so there is a range for each common beginning.
 */
function cutsByPrefixes({ low: [sample, ...rest] }: Range): Key[] {
  const prefixes = typeof sample === 'number' || sample === undefined ? [] : [...sample.keys()];
  return prefixes.flatMap((length) => {
    const prefix = (sample as Uint8Array).subarray(0, length);
    return [prefix, Buffer.concat([prefix, LAST_BYTES])].map((part): Key => [part, ...rest]);
  });
}

/**
 * If a damaged end hides where the numbers end, most of the range beyond the last row that was read is empty, and every probe in it fails. The
 * other rows are likely to be near, so there are ranges that grow with the distance.
 */
function cutsByDistance(first: Key | undefined, end: Key | undefined, bounds: Bounds): Key[] {
  const [known] = first ?? end ?? [];
  if (typeof known !== 'number' || (first !== undefined && end !== undefined)) return [];
  const rest = bounds.inner().low.slice(1);
  const cuts: Key[] = [];
  for (let distance = LEAST_DISTANCE; distance < BEHIND_END; distance *= 2) {
    cuts.push([first === undefined ? known - distance : known + distance, ...rest]);
  }
  return cuts;
}

function cutAt(cuts: readonly Key[], gap: Range): Range[] {
  const within = cuts
    .filter((cut) => compare(gap.low, cut) < 0 && compare(cut, gap.high) < 0)
    .sort(compare);
  const lows = [gap.low, ...within];
  return lows.map((low, i) => ({ low, high: lows[i + 1] ?? gap.high }));
}

/** About the largest gaps first, so that the bound leaves out as little as possible. */
function readGaps(start: readonly Range[], bounds: Bounds, read: Reading): void {
  const gaps = [...start];
  for (let probes = 0; probes < MOST_PROBES; probes++) {
    const next = gaps[probes];
    if (next === undefined) return;
    const { low, high } = next;
    const middle = middleOf(next, bounds.inner());
    if (middle === undefined) continue;
    const up = read('ASC', { low: middle, high });
    const down = read('DESC', { low, high: middle });
    if (!up.isWhole) gaps.push({ low: up.last ?? middle, high });
    if (!down.isWhole) gaps.push({ low, high: down.last ?? middle });
  }
}

/**
 * A key in the range; undefined if there is none. The rows of one value of the first column, at either end, are in a range of their own, because
 * halves of the distance between two texts never reach them:
 *
 *   a,5 ····· a,most │ ····· m ····· │ c,least ····· c,7
 */
function middleOf({ low, high }: Range, known: Known): Key | undefined {
  const [a, ...lowRest] = low;
  const [b, ...highRest] = high;
  if (a === undefined || b === undefined) return undefined;
  const [alphabet = [], ...alphabets] = known.alphabets;
  const rest = { low: known.low.slice(1), high: known.high.slice(1), alphabets };
  if (compareParts(a, b) === 0) {
    const behind = middleOf({ low: lowRest, high: highRest }, rest);
    return behind && [a, ...behind];
  }
  if (compare(rest.low, highRest) < 0) return [b, ...rest.low];
  if (compare(rest.high, lowRest) > 0) return [a, ...rest.high];
  const middle = between(a, b, alphabet);
  return middle === undefined ? undefined : [middle, ...rest.low];
}

function compare(a: Key, b: Key): number {
  for (const [i, part] of a.entries()) {
    const order = compareParts(part, b[i] ?? part);
    if (order !== 0) return order;
  }
  return 0;
}

function compareParts(a: Part, b: Part): number {
  if (typeof a === 'number' || typeof b === 'number') return Number(a) - Number(b);
  return Buffer.compare(a, b);
}

function between(a: Part, b: Part, alphabet: readonly number[]): Part | undefined {
  if (typeof a !== 'number' && typeof b !== 'number') return bytesBetween(a, b, alphabet);
  const [from, to] = [Number(a), Number(b)];
  const isSafe = Number.isSafeInteger(from) && Number.isSafeInteger(to);
  return isSafe && to - from >= 2 ? from + Math.floor((to - from) / 2) : undefined;
}

/**
 * Takes the bytes for the digits of fractions. The digits are the bytes that texts of the column have: between `e-10` and `e-20`, halves of all
 * bytes would need many probes to come to one that begins with `e-1`. The digit 0 is the end of the text.
 */
function bytesBetween(
  a: Uint8Array,
  b: Uint8Array,
  alphabet: readonly number[],
): Uint8Array | undefined {
  const length = Math.max(a.length, b.length) + 1;
  const base = BigInt(alphabet.length + 2);
  const fractionOf = (bytes: Uint8Array): bigint => {
    let sum = 0n;
    for (let i = 0; i < length; i++) sum = sum * base + digitOf(bytes[i], alphabet);
    return sum;
  };
  let rest = (fractionOf(a) + fractionOf(b)) / 2n;
  const middle: number[] = [];
  for (let i = 0; i < length; i++) {
    const digit = Math.max(1, Number(rest % base));
    middle.unshift(alphabet[digit - 1] ?? 0xff);
    rest /= base;
  }
  const found = Uint8Array.from(middle);
  return compareParts(a, found) < 0 && compareParts(found, b) < 0 ? found : undefined;
}

/** A byte that no text has is the last digit. */
function digitOf(byte: number | undefined, alphabet: readonly number[]): bigint {
  if (byte === undefined) return 0n;
  const index = alphabet.indexOf(byte);
  return BigInt(index === -1 ? alphabet.length + 1 : index + 1);
}
