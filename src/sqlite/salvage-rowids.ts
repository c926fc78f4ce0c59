import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { tuples } from './rows.ts';

/** Bounds the search of a gap in which nothing is readable, at some seconds. */
const MOST_PROBES = 10_000;
/** The row ids behind the last readable one at which further rows are looked for. */
const BEHIND_END = 1 << 20;
const EVERY_ID = { from: -(2n ** 63n), to: 2n ** 63n - 1n };

type Cells = readonly SQLOutputValue[];
type Range = { readonly from: number; readonly to: number };
/** `last`: the last row id that was read; NaN if none was. */
type Read = { readonly last: number; readonly isWhole: boolean };

/**
 * Copies the rows of a table in the order of their row ids. A scan ends at the first damage, so the rows between two damaged pages are
 * read from within: a row id in the middle, and from there in both directions, and the same in what is left.
 *
 *   ────▶ ✗ ?   ?   ?   ? ✗ ◀────      ────▶ ✗ ◀── middle ──▶ ✗ ◀────
 *
 * `copy` returns whether it copied the row. Returns whether every row was read and copied.
 */
export function copyByRowid(
  old: DatabaseSync,
  table: string,
  columns: readonly string[],
  copy: (cells: Cells) => boolean,
): boolean {
  // Not every row id is a safe integer.
  const select = `SELECT CAST(rowid AS TEXT), ${columns.join(', ')} FROM ${table} NOT INDEXED`;
  const within = `${select} WHERE rowid BETWEEN ? AND ? ORDER BY rowid`;
  let isCopied = true;
  const read = (direction: 'ASC' | 'DESC', { from, to }: Range | typeof EVERY_ID): Read => {
    // A statement that has met damage fails once more when it begins again.
    const query = tuples<[string, ...SQLOutputValue[]]>(old, `${within} ${direction}`);
    let last = Number.NaN;
    try {
      for (const [id, ...cells] of query.iterate(from, to)) {
        isCopied = copy(cells) && isCopied;
        last = Number(id);
      }
      return { last, isWhole: true };
    } catch {
      return { last, isWhole: false };
    }
  };
  const first = read('ASC', EVERY_ID);
  if (first.isWhole) return isCopied;
  const { last: end } = read('DESC', EVERY_ID);
  const from = Number.isNaN(first.last) ? 1 : first.last + 1;
  const gap = { from, to: Number.isNaN(end) ? from + BEHIND_END : end - 1 };
  if (Number.isSafeInteger(gap.from) && Number.isSafeInteger(gap.to)) {
    readGaps(
      gap,
      (range) => read('ASC', range),
      (range) => read('DESC', range),
    );
  }
  return false;
}

/** The largest gaps first, so that the bound leaves out as little as possible. */
function readGaps(
  gap: Range,
  upwards: (range: Range) => Read,
  downwards: (range: Range) => Read,
): void {
  const gaps = [gap];
  for (let probes = 0; probes < MOST_PROBES; probes++) {
    const next = gaps[probes];
    if (next === undefined) return;
    const { from, to } = next;
    const middle = Math.floor((from + to) / 2);
    const up = upwards({ from: middle, to });
    const down = downwards({ from, to: middle - 1 });
    if (!up.isWhole) addGap(gaps, (Number.isNaN(up.last) ? middle : up.last) + 1, to);
    if (!down.isWhole) addGap(gaps, from, (Number.isNaN(down.last) ? middle - 1 : down.last) - 1);
  }
}

function addGap(gaps: Range[], from: number, to: number): void {
  if (from <= to) gaps.push({ from, to });
}
