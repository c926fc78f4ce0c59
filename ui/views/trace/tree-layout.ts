import type { TreeObservation } from '../../api/types.ts';
import { instantOf } from './instant.ts';

/**
 * The tree of a trace, as arrays with an element per row. The rows are in the order of a walk from the roots: a row, then
 * all rows below it. So the subtree of row `r` is `r` to `r + sizes[r] - 1`. Siblings keep the order of the answer, which is
 * that of their starts. Every function of this file takes time in proportion to the number of observations.
 */
export type TreeLayout = {
  readonly observations: readonly TreeObservation[];
  /** The observation of each row. */
  readonly order: Int32Array;
  readonly depths: Int32Array;
  /** The row of the parent; −1 for a root. */
  readonly parents: Int32Array;
  /** Rows of the subtree, with its root. */
  readonly sizes: Int32Array;
  /** Milliseconds since 1970; NaN without a time. */
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  /** The row of an observation, by its id. */
  readonly rowOf: ReadonlyMap<string, number>;
};

const NONE = -1;

/**
 * Lays out the observations of a trace. A row without a parent in the trace is a root. A cycle of parents is broken at the
 * observation that the daemon marks, else at its first one.
 */
export function layoutOf(observations: readonly TreeObservation[]): TreeLayout {
  const count = observations.length;
  const links = linksOf(observations);
  const { order, depths, parents, sizes } = walk(count, links);
  const starts = new Float64Array(count);
  const ends = new Float64Array(count);
  const rowOf = new Map<string, number>();
  for (let row = 0; row < count; row++) {
    const each = observations[order[row] ?? 0];
    starts[row] = instantOf(each?.start_time);
    ends[row] = instantOf(each?.end_time);
    if (each !== undefined && !rowOf.has(each.id)) rowOf.set(each.id, row);
  }
  return { observations, order, depths, parents, sizes, starts, ends, rowOf };
}

/** The children of each observation as linked lists. */
type Links = {
  readonly firstChild: Int32Array;
  readonly nextSibling: Int32Array;
  readonly parent: Int32Array;
};

function linksOf(observations: readonly TreeObservation[]): Links {
  const count = observations.length;
  const indexOf = new Map<string, number>();
  for (let index = count - 1; index >= 0; index--) {
    const each = observations[index];
    if (each !== undefined) indexOf.set(each.id, index);
  }
  const firstChild = new Int32Array(count).fill(NONE);
  const nextSibling = new Int32Array(count).fill(NONE);
  const parent = new Int32Array(count).fill(NONE);
  // From the last to the first: a list is in the order of the answer.
  for (let index = count - 1; index >= 0; index--) {
    const each = observations[index];
    const above = each?.cycle === true ? undefined : indexOf.get(each?.parent_id ?? '');
    if (above === undefined || above === index || each?.parent_id === null) continue;
    parent[index] = above;
    nextSibling[index] = firstChild[above] ?? NONE;
    firstChild[above] = index;
  }
  return { firstChild, nextSibling, parent };
}

type Walked = Pick<TreeLayout, 'order' | 'depths' | 'parents' | 'sizes'>;

/** Visits every observation once, those in a cycle too. */
function walk(count: number, { firstChild, nextSibling, parent }: Links): Walked {
  const order = new Int32Array(count);
  const depths = new Int32Array(count);
  const parents = new Int32Array(count).fill(NONE);
  const sizes = new Int32Array(count).fill(1);
  const rows = new Int32Array(count).fill(NONE);
  let next = 0;

  function visit(root: number): void {
    let index = root;
    let above = NONE;
    for (;;) {
      const row = next++;
      rows[index] = row;
      order[row] = index;
      parents[row] = above;
      depths[row] = above === NONE ? 0 : (depths[above] ?? 0) + 1;
      const child = unvisited(firstChild[index] ?? NONE);
      if (child !== NONE) {
        above = row;
        index = child;
        continue;
      }
      // Up to the first ancestor with a sibling that is left.
      let at = row;
      let sibling = NONE;
      while (at !== NONE && order[at] !== root && sibling === NONE) {
        sibling = unvisited(nextSibling[order[at] ?? 0] ?? NONE);
        at = parents[at] ?? NONE;
      }
      if (sibling === NONE) return;
      index = sibling;
      above = at;
    }
  }
  const unvisited = (first: number): number => {
    let index = first;
    while (index !== NONE && rows[index] !== NONE) index = nextSibling[index] ?? NONE;
    return index;
  };

  for (let index = 0; index < count; index++) if (parent[index] === NONE) visit(index);
  for (let index = 0; index < count; index++) if (rows[index] === NONE) visit(index);
  for (let row = count - 1; row >= 0; row--) {
    const above = parents[row] ?? NONE;
    if (above !== NONE) sizes[above] = (sizes[above] ?? 0) + (sizes[row] ?? 0);
  }
  return { order, depths, parents, sizes };
}

/** The rows of the children of a row. */
export function* childRows({ sizes }: TreeLayout, row: number): Generator<number> {
  const end = row + (sizes[row] ?? 1);
  for (let child = row + 1; child < end; child += sizes[child] ?? 1) yield child;
}

/** The observation of a row. */
export function observationAt(
  { observations, order }: TreeLayout,
  row: number,
): TreeObservation | undefined {
  return observations[order[row] ?? NONE];
}

/** Whether an observation names a parent that the trace does not have, or only in a cycle. */
export function isOrphan(layout: TreeLayout, row: number): boolean {
  return layout.parents[row] === NONE && (observationAt(layout, row)?.parent_id ?? null) !== null;
}
