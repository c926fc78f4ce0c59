/**
 * Rows go to Postgres as columns, each one parameter that `unnest` splits. The driver's own encoding of arrays quotes
 * and escapes every cell, which costs more than the rest of a write (5 to 9 µs a row). Escaped text (text.ts) never
 * holds some pairs of control characters, so these separate the cells.
 */

export type Cell = string | number | Buffer | null;

type CellType = 'smallint' | 'integer' | 'bigint' | 'float8' | 'numeric' | 'text' | 'bytea';

/** A column of a table, and its cell in the row of an item. */
export type Column<Item> = {
  readonly name: string;
  readonly type: CellType;
  readonly of: (item: Item) => Cell;
};

export const SEPARATOR = '\u0001\u0005';
export const NULL = '\u0001\u0006';
/** Between packed rows. */
export const ROW_SEPARATOR = '\u0001\u0007';

/** An SQL expression: the array in the parameter `$place`, which `columnParameter` made. */
function arrayAt(place: number, type: CellType): string {
  if (type !== 'text') return `$${place}::${type}[]`;
  // string_to_array('') yields {} instead of {''}.
  return `CASE $${place}::text WHEN '' THEN '{""}' ELSE string_to_array($${place}, E'\\x01\\x05', E'\\x01\\x06') END`;
}

/**
 * An SQL table expression, which needs an alias: the rows of the columns, whose parameters begin at `first`, behind the arrays
 * in `before`. The arrays are in a select list, where each row takes its cells from all of them. In a `FROM`, Postgres
 * first makes a table of each array.
 */
export function unnest<Item>(
  columns: readonly Column<Item>[],
  first: number,
  ...before: string[]
): string {
  const arrays = columns.map(({ type }, i) => arrayAt(first + i, type));
  return `(SELECT ${[...before, ...arrays].map((array) => `unnest(${array})`).join(', ')})`;
}

export function namesOf<Item>(columns: readonly Column<Item>[]): string {
  return columns.map(({ name }) => name).join(', ');
}

/** The parameters for `unnest`. */
export function columnParameters<Item>(
  columns: readonly Column<Item>[],
  items: readonly Item[],
): (string | null)[] {
  return columns.map((column) => columnParameter(column, items));
}

/** A column of nulls only is null itself: the longest column decides the number of rows. */
export function columnParameter<Item>(
  { type, of }: Column<Item>,
  items: readonly Item[],
): string | null {
  const none = type === 'text' ? NULL : 'NULL';
  let isNull = true;
  // Hot path, runs for every cell of a write: an array of known length costs half of one that grows.
  const written = new Array<string | number>(items.length);
  let i = 0;
  for (const item of items) {
    const cell = of(item);
    if (cell !== null) isNull = false;
    written[i++] = cell === null ? none : typeof cell === 'number' ? cell : textOf(cell, type);
  }
  if (isNull) return null;
  return type === 'text' ? written.join(SEPARATOR) : `{${written.join(',')}}`;
}

/** Keys are quoted, because one may read NULL. */
function textOf(cell: string | Buffer, type: CellType): string {
  if (Buffer.isBuffer(cell)) return `"\\\\x${cell.toString('hex')}"`;
  return type === 'bytea' ? `"${cell}"` : cell;
}
