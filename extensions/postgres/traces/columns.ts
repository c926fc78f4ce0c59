import type { Cell } from './cells.ts';

/**
 * Rows go to Postgres as columns, an array each. The driver's own way to write an array costs more than the rest
 * of a write: it quotes and escapes each cell. What `toText` made needs neither, because some pairs of
 * characters never stand in it.
 */

export type CellTypes = readonly (readonly [name: string, type: string])[];

/** Between cells of text. */
const BETWEEN = '\u0001\u0005';
const NULL = '\u0001\u0006';

/** An array of this type, made of a parameter that `columnOf` made of this type. */
export function arrayAt(place: number, type: string): string {
  if (type !== 'text') return `$${place}::${type}[]`;
  // Nothing but an empty text is no text for string_to_array.
  return `CASE $${place}::text WHEN '' THEN '{""}' ELSE string_to_array($${place}, E'\\x01\\x05', E'\\x01\\x06') END`;
}

/** A table of the columns' names, made of parameters from `first` on, and of arrays before them. */
export function unnest(cells: CellTypes, first: number, ...before: string[]): string {
  const arrays = cells.map(([, type], i) => arrayAt(first + i, type));
  return `unnest(${[...before, ...arrays].join(', ')})`;
}

/** A column of nothing but nulls is null itself: the longest column says how many rows there are. */
export function columnOf(type: string, cells: readonly Cell[]): string | null {
  return columnAt(
    type,
    cells.map((cell) => [cell]),
    0,
  );
}

export function columnsOf(types: CellTypes, rows: readonly (readonly Cell[])[]): (string | null)[] {
  return types.map(([, type], i) => columnAt(type, rows, i));
}

function columnAt(type: string, rows: readonly (readonly Cell[])[], at: number): string | null {
  const none = type === 'text' ? NULL : 'NULL';
  let isNull = true;
  const written = new Array<string | number>(rows.length);
  for (let i = 0; i < rows.length; i++) {
    const cell = rows[i]?.[at] ?? null;
    if (cell !== null) isNull = false;
    written[i] =
      cell === null ? none : type === 'bytea' ? bytesOf(cell) : (cell as string | number);
  }
  if (isNull) return null;
  return type === 'text' ? written.join(BETWEEN) : `{${written.join(',')}}`;
}

/** Quoted, because NULL could be a key. */
function bytesOf(cell: string | number | Buffer): string {
  return Buffer.isBuffer(cell) ? `"\\\\x${cell.toString('hex')}"` : `"${cell}"`;
}
