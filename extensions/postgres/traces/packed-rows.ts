import { listedCell } from '../../../src/store/rows/listed.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { NULL, ROW_SEPARATOR, SEPARATOR } from './columns.ts';
import { keyOfEscaped, textOrNull } from './text.ts';

/**
 * Rows that leave Postgres as one text each. The driver parses every column of a row: 10,000 rows of a tree cost 45 ms of CPU, with
 * the server, and 28 as texts. Escaped text (text.ts) never holds the pairs of control characters that separate the cells.
 */
export type PackedRow = { readonly packed: string };

/** All rows of a `packedTogether`; null if there are none. */
export type PackedRows = { readonly packed: string | null };

/** The cells of a packed row, which are read in the order of its columns. */
export class PackedCells {
  readonly #cells: readonly string[];
  #at = 0;

  constructor({ packed }: PackedRow) {
    this.#cells = packed.split(SEPARATOR);
  }

  #next(): string | null {
    const cell = this.#cells[this.#at++];
    if (cell === undefined) throw new Error('a packed row has too few cells');
    return cell === NULL ? null : cell;
  }

  /** As it is in the table: escaped. */
  escaped(): string | null {
    return this.#next();
  }

  text(): string | null {
    return textOrNull(this.#next());
  }

  numberOrNull(): number | null {
    const cell = this.#next();
    return cell === null ? null : Number(cell);
  }

  number(): number {
    return Number(this.#next());
  }

  key(): Key {
    return keyOfEscaped(this.#next() ?? '');
  }
}

/** The form that `keyOfEscaped` reads. A hashed key can have the bytes between two cells, so it is in hexadecimal digits. */
export const KEY_TEXT = `CASE WHEN o.key >= '\\xff'::bytea THEN '\\x' || encode(o.key, 'hex')
  ELSE encode(o.key, 'escape') END`;

/** The SQL of a packed row: columns of `o` as listings read them, behind other expressions. */
export function packed(columns: readonly string[], ...others: string[]): string {
  const cells = columns.map((column) => (column === 'key' ? KEY_TEXT : listedCell('o', column)));
  return packedCells([...others, ...cells]);
}

/** The SQL of a packed row of expressions. */
export function packedCells(expressions: readonly string[]): string {
  const cells = expressions.map((cell) => `coalesce((${cell})::text, E'\\x01\\x06')`);
  return `concat_ws(E'\\x01\\x05', ${cells.join(', ')}) AS packed`;
}

/** A statement whose rows are packed, with all of them in one: the driver takes a microsecond for each row. */
export function packedTogether(select: string): string {
  return `SELECT string_agg(s.packed, E'\\x01\\x07') AS packed FROM (${select}) s`;
}

/** Calls `take` with the cells of each row of a `packedTogether`. */
export function eachPacked(found: readonly PackedRows[], take: (cells: PackedCells) => void): void {
  for (const { packed } of found) {
    if (packed === null) continue;
    for (const row of packed.split(ROW_SEPARATOR)) take(new PackedCells({ packed: row }));
  }
}
