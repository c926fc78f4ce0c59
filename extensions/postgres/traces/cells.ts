import { versionOf } from '../../../src/store/rows/event-rank.ts';
import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';

/**
 * How values stand in the tables. Postgres takes neither NUL nor halves of surrogate pairs in text: each of
 * them is written as some control characters, so that everything else stays as it is and can be searched.
 */

const ESCAPE = '\u0001';
const NUL = `${ESCAPE}\u0002`;
const ITSELF = `${ESCAPE}\u0003`;
/** In front of a parent's id that is none of its trace's though it looks like one. */
const WHOLE_PARENT = `${ESCAPE}\u0004`;
/** Four of these follow `ESCAPE`: the halves of a surrogate half's code unit, from 0x10. */
const NIBBLES = 0x10;

// biome-ignore lint/suspicious/noControlCharactersInRegex: NUL is what Postgres refuses.
const ESCAPED = /[\u0000\u0001]|\p{Surrogate}/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const HAS_ESCAPED = /[\u0000\u0001]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above.
const ESCAPES = /\u0001(?:\u0002|\u0003|[\u0010-\u001f]{4})/g;

export function toStoredText(text: string): string {
  if (!HAS_ESCAPED.test(text) && text.isWellFormed()) return text;
  return text.replaceAll(ESCAPED, (found) => {
    if (found === '\u0000') return NUL;
    if (found === ESCAPE) return ITSELF;
    const unit = found.charCodeAt(0);
    const nibbles = [12, 8, 4, 0].map((shift) => NIBBLES + ((unit >> shift) & 15));
    return ESCAPE + String.fromCharCode(...nibbles);
  });
}

export function fromStoredText(text: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replaceAll(ESCAPES, (found) => {
    if (found === NUL) return '\u0000';
    if (found === ITSELF) return ESCAPE;
    let unit = 0;
    for (let i = 1; i < found.length; i++) unit = unit * 16 + found.charCodeAt(i) - NIBBLES;
    return String.fromCharCode(unit);
  });
}

/** No text begins with this byte in UTF-8. */
const HASHED = 0xff;

export function toKey(key: Key): Buffer {
  if (typeof key === 'string') return Buffer.from(toStoredText(key));
  return Buffer.concat([Buffer.of(HASHED), key]);
}

/** Means the same to Postgres as bytes and as a text of them, in an array too. */
const PLAIN_KEY = /^[\w:.-]*$/;

/** A key as a cell of `bytea`: as it is where that means the same, else its bytes. */
export function keyCell(key: Key): string | Buffer {
  return typeof key === 'string' && PLAIN_KEY.test(key) ? key : toKey(key);
}

export function fromKey(bytes: Buffer): Key {
  return bytes[0] === HASHED ? bytes.subarray(1) : fromStoredText(bytes.toString());
}

/** A cell as the driver takes and gives it: `bigint` and `numeric` come as text, `bytea` as bytes. */
export type Cell = string | number | Buffer | null;

/** The columns of an observation's cells, in this order, with the types of their arrays. */
export const OBSERVATION_CELLS = [
  ['trace', 'bigint'],
  ['key', 'bytea'],
  ['n', 'bigint'],
  ['long_id', 'text'],
  ['position', 'integer'],
  ['version', 'numeric'],
  ['flags', 'integer'],
  ['parent', 'text'],
  ['name', 'text'],
  ['kind', 'smallint'],
  ['status', 'smallint'],
  ['start_ms', 'bigint'],
  ['start_ns', 'integer'],
  ['end_ms', 'bigint'],
  ['end_ns', 'integer'],
  ['model', 'text'],
  ['usage', 'text'],
  ['session', 'text'],
  ['user_id', 'text'],
  ['error', 'text'],
  ['custom', 'text'],
  ['external', 'text'],
  ['batch', 'text'],
  ['created_at', 'bigint'],
  ['updated_at', 'bigint'],
  ['merged', 'text'],
] as const;

export function observationCells(
  trace: number,
  n: number,
  row: ObservationRow,
  { batch, createdAt, updatedAt, merged }: RowState<string>,
): Cell[] {
  // Written out: of every row there is, and copying lists of cells costs more than the cells do.
  return [
    trace,
    keyCell(row[0]),
    n,
    textCell(row[1]),
    row[2],
    row[3],
    row[4],
    parentCell(row[5]),
    textCell(row[6]),
    row[7],
    row[8],
    row[9],
    row[10],
    row[11],
    row[12],
    textCell(row[13]),
    textCell(row[14]),
    textCell(row[15]),
    textCell(row[16]),
    textCell(row[17]),
    textCell(row[18]),
    textCell(row[19]),
    batch,
    createdAt,
    updatedAt,
    merged,
  ];
}

/** Without the key. */
export function rowCells(row: ObservationRow): Cell[] {
  const [, longId, position, version, flags, parent, ...rest] = row;
  return [textCell(longId), position, version, flags, parentCell(parent), ...rest.map(textCell)];
}

function textCell<T extends string | number | null>(value: T): string | T {
  return typeof value === 'string' ? toStoredText(value) : value;
}

function parentCell(parent: ObservationRow[5]): string | null {
  if (parent === null || typeof parent === 'string') return textCell(parent);
  return WHOLE_PARENT + toStoredText(Buffer.from(parent).toString());
}

/** The inverse of `observationCells`, of a row read as a list of these columns. */
export function observationOfCells(cells: readonly Cell[]): {
  trace: number;
  n: number;
  row: ObservationRow;
  state: RowState<string>;
} {
  const [batch, createdAt, updatedAt, merged] = cells.slice(22);
  return {
    trace: Number(cells[0]),
    n: Number(cells[2]),
    row: rowOfCells(fromKey(cells[1] as Buffer), cells.slice(3, 22)),
    state: {
      batch: String(batch),
      createdAt: Number(createdAt),
      updatedAt: Number(updatedAt),
      merged: merged as string | null,
    },
  };
}

/** The inverse of `rowCells`. */
export function rowOfCells(key: Key, cells: readonly Cell[]): ObservationRow {
  const [longId, position, version, flags, parent, name, kind, status, ...rest] = cells;
  return [
    key,
    ofText(longId),
    Number(position),
    versionOf(String(version)),
    Number(flags),
    ofParent(ofRaw(parent)),
    ofText(name),
    ofNumber(kind),
    ofNumber(status),
    ...rest.slice(0, 4).map(ofNumber),
    ...rest.slice(4).map(ofText),
  ] as ObservationRow;
}

function ofRaw(cell: Cell | undefined): string | null {
  return typeof cell === 'string' ? cell : null;
}

function ofText(cell: Cell | undefined): string | null {
  return typeof cell === 'string' ? fromStoredText(cell) : null;
}

function ofNumber(cell: Cell | undefined): number | null {
  return cell === null || cell === undefined ? null : Number(cell);
}

function ofParent(text: string | null): ObservationRow[5] {
  if (text === null) return null;
  if (!text.startsWith(WHOLE_PARENT)) return fromStoredText(text);
  return Buffer.from(fromStoredText(text.slice(WHOLE_PARENT.length)));
}
