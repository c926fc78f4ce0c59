import type { TreeObservation } from '../../api/types.ts';
import type { TreeLayout } from './tree-layout.ts';
import { observationAt } from './tree-layout.ts';

/** The rows that a person sees. */
export type Visible = {
  readonly rows: Int32Array;
  /** The index of each row in `rows`; −1 if it is hidden. */
  readonly indexOf: Int32Array;
  /** Rows that match the filter; undefined without one. */
  readonly matches: number | undefined;
};

/** Leaves out what is below collapsed rows. */
export function expandedRows(layout: TreeLayout, collapsed: ReadonlySet<string>): Visible {
  const { order, sizes } = layout;
  const rows: number[] = [];
  for (let row = 0; row < order.length; ) {
    rows.push(row);
    const isCollapsed = collapsed.size > 0 && collapsed.has(observationAt(layout, row)?.id ?? '');
    row += isCollapsed ? (sizes[row] ?? 1) : 1;
  }
  return { ...indexed(rows, order.length), matches: undefined };
}

/** Leaves only rows that have the text, and the rows above them. */
export function matchingRows(layout: TreeLayout, text: string): Visible {
  const { order, parents } = layout;
  const wanted = text.trim().toLowerCase();
  const isShown = new Uint8Array(order.length);
  let matches = 0;
  for (let row = 0; row < order.length; row++) {
    const each = observationAt(layout, row);
    if (each === undefined || !hasText(each, wanted)) continue;
    matches += 1;
    for (let at = row; at >= 0 && isShown[at] === 0; at = parents[at] ?? -1) isShown[at] = 1;
  }
  const rows: number[] = [];
  for (let row = 0; row < order.length; row++) if (isShown[row] === 1) rows.push(row);
  return { ...indexed(rows, order.length), matches };
}

/** Whether the name, kind, model, error or id of an observation has a text in lower case. */
function hasText(each: TreeObservation, wanted: string): boolean {
  const { name, kind, model, error, id } = each;
  return [name, kind, model, error?.type, error?.message, id].some(
    (text) => typeof text === 'string' && text.toLowerCase().includes(wanted),
  );
}

function indexed(rows: readonly number[], count: number): Pick<Visible, 'rows' | 'indexOf'> {
  const indexOf = new Int32Array(count).fill(-1);
  for (let index = 0; index < rows.length; index++) indexOf[rows[index] ?? 0] = index;
  return { rows: Int32Array.from(rows), indexOf };
}

/** The next failed row behind a row, from the first one again behind the last. */
export function nextError(layout: TreeLayout, from: number): number | undefined {
  const count = layout.order.length;
  for (let step = 1; step <= count; step++) {
    const row = (from + step) % count;
    if (observationAt(layout, row)?.state === 'error') return row;
  }
  return undefined;
}

/** Rows by their own time, the slowest first; a few are enough to look at one after the other. */
export function slowestRows(ownTimes: Float64Array, limit = 20): number[] {
  const found: number[] = [];
  const timeOf = (row: number): number => ownTimes[row] ?? 0;
  for (let row = 0; row < ownTimes.length; row++) {
    if (!(timeOf(row) > 0)) continue;
    const isFull = found.length === limit;
    if (isFull && timeOf(row) <= timeOf(found[limit - 1] ?? 0)) continue;
    if (isFull) found.pop();
    const at = found.findIndex((other) => timeOf(other) < timeOf(row));
    found.splice(at === -1 ? found.length : at, 0, row);
  }
  return found;
}
