import type { Figured } from './figures.ts';

/** An observation, as far as the tree shows it. */
export type TreeObservation = Figured & {
  readonly id: string;
  readonly parent_id: string | null;
  readonly name: string | null;
  readonly kind: string | null;
  readonly status: string | null;
  readonly start_time: string | null;
  readonly end_time: string | null;
  readonly error: { readonly type: string | null; readonly message: string | null } | null;
};

/** A line of the tree: an observation, or the number of those that are left out. */
export type TreeRow = { readonly depth: number; readonly prefix: string } & (
  | { readonly observation: TreeObservation }
  | { readonly omitted: number; readonly failed: number }
);

type Node = {
  readonly observation: TreeObservation;
  readonly children: Node[];
  /** Observations below it, and failed ones among it and those. */
  below: number;
  failed: number;
};

/** Children of one parent, and rows of all, that are shown at most without `all`. */
const MOST_CHILDREN = 20;
const MOST_ROWS = 500;
/** Deeper levels are numbered, not indented. */
const MOST_INDENT = 10;

/**
 * The rows of a tree, parents before children, siblings in the given order. Of many siblings the first half of the room
 * and those with failures are shown. An observation whose parent is missing is a root, and so is the first one of a cycle.
 */
export function treeRows(observations: readonly TreeObservation[], all = false): TreeRow[] {
  const rows: TreeRow[] = [];
  const waiting: Waiting[] = [];
  push(waiting, shown(rootsOf(observations), all), 0, '');
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { entry, depth, isLast, indent } = next;
    if (!all && rows.length >= MOST_ROWS) {
      rows.push(rest([next, ...waiting.toReversed()]));
      break;
    }
    const prefix = depth === 0 ? '' : prefixOf(depth, isLast, indent);
    if ('omitted' in entry) {
      rows.push({ depth, prefix, ...entry });
      continue;
    }
    rows.push({ depth, prefix, observation: entry.observation });
    const deeper = depth === 0 || depth > MOST_INDENT ? '' : `${indent}${isLast ? '  ' : '│ '}`;
    push(waiting, shown(entry.children, all), depth + 1, deeper);
  }
  return rows;
}

type Entry = Node | { readonly omitted: number; readonly failed: number };
type Waiting = {
  readonly entry: Entry;
  readonly depth: number;
  readonly isLast: boolean;
  readonly indent: string;
};

function push(waiting: Waiting[], entries: readonly Entry[], depth: number, indent: string): void {
  for (let i = entries.length - 1; i >= 0; i--) {
    const entry = entries[i];
    if (entry === undefined) continue;
    waiting.push({ entry, depth, isLast: i === entries.length - 1, indent });
  }
}

function prefixOf(depth: number, isLast: boolean, indent: string): string {
  if (depth > MOST_INDENT) return `… ${depth} `;
  return `${indent}${isLast ? '└ ' : '├ '}`;
}

/** Everything that waits, as one row. */
function rest(waiting: readonly Waiting[]): TreeRow {
  let omitted = 0;
  let failed = 0;
  for (const { entry } of waiting) {
    omitted += 'omitted' in entry ? entry.omitted : entry.below + 1;
    failed += entry.failed;
  }
  return { depth: 0, prefix: '', omitted, failed };
}

/** The siblings that are shown, and a count of the others. */
function shown(siblings: readonly Node[], all: boolean): Entry[] {
  if (all || siblings.length <= MOST_CHILDREN) return [...siblings];
  const half = MOST_CHILDREN / 2;
  const failing = siblings.slice(half).filter(({ failed }) => failed > 0);
  const kept = new Set([...siblings.slice(0, half), ...failing.slice(0, half - 1)]);
  const others = siblings.filter((node) => !kept.has(node));
  return [
    ...siblings.filter((node) => kept.has(node)),
    {
      omitted: others.reduce((sum, { below }) => sum + below + 1, 0),
      failed: others.reduce((sum, { failed }) => sum + failed, 0),
    },
  ];
}

function rootsOf(observations: readonly TreeObservation[]): Node[] {
  const nodes = new Map<string, Node>();
  for (const observation of observations) {
    const failed = observation.status === 'error' ? 1 : 0;
    nodes.set(observation.id, { observation, children: [], below: 0, failed });
  }
  const roots: Node[] = [];
  for (const node of nodes.values()) {
    const parent = nodes.get(node.observation.parent_id ?? '');
    if (parent === undefined || parent === node) roots.push(node);
    else parent.children.push(node);
  }
  const reached = new Set<Node>();
  for (const root of roots) reach(root, reached);
  for (const node of nodes.values()) {
    if (reached.has(node)) continue;
    const parent = nodes.get(node.observation.parent_id ?? '');
    parent?.children.splice(parent.children.indexOf(node), 1);
    roots.push(node);
    reach(node, reached);
  }
  return roots;
}

/** Adds what is below a root, and sums up each node. */
function reach(root: Node, reached: Set<Node>): void {
  const order: Node[] = [];
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (reached.has(node)) continue;
    reached.add(node);
    order.push(node);
    // A call with one argument for each of very many children overflows the stack.
    for (const child of node.children) waiting.push(child);
  }
  for (const node of order.toReversed()) {
    for (const child of node.children) {
      node.below += child.below + 1;
      node.failed += child.failed;
    }
  }
}
