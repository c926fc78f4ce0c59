import type { TreeLayout } from './tree-layout.ts';
import { childRows, isOrphan } from './tree-layout.ts';

/**
 * The critical path: what the end of the trace waited for, from its end backwards. Within an observation the child that ended
 * last is on it, then the child that ended last before that one started, and so on; the rest is the time of the observation
 * itself. The element of a row has its own milliseconds on the path, and NaN if it is not on the path. They add up to
 * the duration of the root.
 */
export function criticalPath(layout: TreeLayout): Float64Array {
  const { order, starts, ends } = layout;
  const own = new Float64Array(order.length).fill(Number.NaN);
  const root = mainRoot(layout);
  if (root === undefined) return own;
  const work = [{ row: root, from: starts[root] ?? 0, until: ends[root] ?? 0 }];
  for (let next = work.pop(); next !== undefined; next = work.pop()) {
    const { row, from, until } = next;
    let time = until;
    let self = 0;
    for (const child of lastFirst(layout, row)) {
      const end = Math.min(ends[child] ?? 0, until);
      const start = Math.max(starts[child] ?? 0, from);
      if (end > time || start > end) continue;
      self += time - end;
      work.push({ row: child, from: start, until: end });
      time = start;
    }
    own[row] = self + time - from;
  }
  return own;
}

/** The children that have both times, the one that ended last first. */
function lastFirst(layout: TreeLayout, row: number): number[] {
  const { ends } = layout;
  const rows: number[] = [];
  for (const child of childRows(layout, row)) if (isTimed(layout, child)) rows.push(child);
  return rows.sort((a, b) => (ends[b] ?? 0) - (ends[a] ?? 0));
}

function isTimed({ starts, ends }: TreeLayout, row: number): boolean {
  return (starts[row] ?? Number.NaN) <= (ends[row] ?? Number.NaN);
}

/** The longest root that names no parent; else the longest root. */
function mainRoot(layout: TreeLayout): number | undefined {
  const { order, sizes, starts, ends } = layout;
  const longest: { root: number | undefined; other: number | undefined } = {
    root: undefined,
    other: undefined,
  };
  const length = (row: number): number => (ends[row] ?? 0) - (starts[row] ?? 0);
  for (let row = 0; row < order.length; row += sizes[row] ?? 1) {
    if (!isTimed(layout, row)) continue;
    const kind = isOrphan(layout, row) ? 'other' : 'root';
    const before = longest[kind];
    if (before === undefined || length(row) > length(before)) longest[kind] = row;
  }
  return longest.root ?? longest.other;
}

/** The milliseconds of each row that none of its children covers; NaN without both times. */
export function ownTimes(layout: TreeLayout): Float64Array {
  const { order, starts, ends } = layout;
  const own = new Float64Array(order.length).fill(Number.NaN);
  for (let row = 0; row < order.length; row++) {
    if (!isTimed(layout, row)) continue;
    const end = ends[row] ?? 0;
    let covered = starts[row] ?? 0;
    let free = 0;
    for (const child of firstFirst(layout, row)) {
      const start = Math.min(Math.max(starts[child] ?? 0, covered), end);
      free += start - covered;
      covered = Math.max(start, Math.min(ends[child] ?? 0, end));
    }
    own[row] = free + end - covered;
  }
  return own;
}

function firstFirst(layout: TreeLayout, row: number): number[] {
  const { starts } = layout;
  const rows: number[] = [];
  for (const child of childRows(layout, row)) if (isTimed(layout, child)) rows.push(child);
  return rows.sort((a, b) => (starts[a] ?? 0) - (starts[b] ?? 0));
}
