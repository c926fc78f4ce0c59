import { decodeJsonText } from '../../model/json/decode.ts';
import { cutText } from '../../model/narrow-limits.ts';
import type { TokenUsage } from '../../model/observation.ts';
import type { NarrowObservation, TreePlace } from '../observation-json.ts';
import { treeJson } from '../observation-json.ts';
import type { TreePage } from '../store.ts';
import { closed } from './listed.ts';
import type { Key } from './observation-row.ts';
import {
  detailsFromColumn,
  idOf,
  isEnded,
  kindOf,
  parentFromColumn,
  statusOf,
} from './observation-row.ts';
import type { FoundRows } from './page.ts';
import type { Place } from './place.ts';
import { cursorOf, NO_START } from './place.ts';
import { stateOf } from './stored.ts';
import type { TraceTotals, UsageNode } from './trace-totals.ts';
import { hasUsage } from './trace-totals.ts';

/** An observation as the tree of its trace reads it. A tuple: a tree has tens of thousands of rows. */
export type TreeCells = readonly [
  n: number,
  key: Key,
  longId: string | null,
  flags: number,
  parent: string | Uint8Array | null,
  name: string | null,
  kind: number | null,
  status: number | null,
  startMs: number | null,
  startNs: number | null,
  endMs: number | null,
  endNs: number | null,
  model: string | null,
  usage: string | null,
  error: string | null,
  details: string | null,
  updatedAt: number,
  /** The newest time of the trace. */
  newestMs: number | null,
];

/** The columns of `TreeCells` but the last one, in its order. */
export const TREE_COLUMNS = [
  ...(['n', 'key', 'long_id', 'flags', 'parent', 'name', 'kind', 'status', 'start_ms'] as const),
  ...(['start_ns', 'end_ms', 'end_ns', 'model', 'usage', 'error', 'details'] as const),
  'updated_at',
] as const;

function placeInTrace([n, , , , , , , , startMs, startNs]: TreeCells): Place {
  return { ms: startMs ?? NO_START, ns: startNs ?? 0, n };
}

/**
 * Observations of a tree as they leave a reading thread: their JSON, and what the totals of the trace need of each. Rows of
 * cells cost several times as much, to copy and to collect.
 */
export type PackedTree = {
  /** Joined with commas; their places are blank, for `fillPlaces`. Empty if no texts are wanted. */
  readonly text: Uint8Array<ArrayBuffer>;
  readonly ids: readonly string[];
  readonly parents: readonly (string | null)[];
  /** NaN for an unknown one. */
  readonly starts: Float64Array<ArrayBuffer>;
  /** The nodes with usage or cost, by their index. */
  readonly calls: ReadonlyMap<number, UsageNode>;
  /** The place of the last row; null if there are no further ones. */
  readonly next: Place | null;
};

/** Hot path, runs for every observation of a trace. `staleBefore`: see `traceOf`. */
export function packTree(
  { rows, hasMore }: FoundRows<TreeCells>,
  traceId: string,
  staleBefore: number,
  hasText: boolean,
): PackedTree {
  const [ids, parents]: [string[], (string | null)[]] = [[], []];
  const starts = new Float64Array(rows.length);
  const calls = new Map<number, UsageNode>();
  let text = '';
  for (const [i, cells] of rows.entries()) {
    const observation = treeObservationOf(traceId, staleBefore, cells);
    const node = usageNodeOf(observation);
    ids.push(node.id);
    parents.push(node.parentId);
    starts[i] = node.start ?? Number.NaN;
    if (hasUsage(node)) calls.set(i, node);
    if (hasText) text += i === 0 ? treeJson(observation) : `,${treeJson(observation)}`;
  }
  const last = rows.at(-1);
  const next = hasMore && last !== undefined ? placeInTrace(last) : null;
  return { text: new TextEncoder().encode(text), ids, parents, starts, calls, next };
}

export function treePage({ text, ids, parents, starts, calls, next }: PackedTree): TreePage {
  return {
    text: Buffer.from(text.buffer),
    nodes: ids.map((id, i) => {
      const call = calls.get(i);
      if (call !== undefined) return call;
      const start = starts[i] ?? Number.NaN;
      return {
        ...{ id, parentId: parents[i] ?? null, start: Number.isNaN(start) ? null : start },
        ...{ end: null, model: null, scope: null, responseId: null, usage: null, cost: null },
      };
    }),
    nextCursor: next === null ? null : cursorOf(next),
  };
}

function treeObservationOf(
  traceId: string,
  staleBefore: number,
  [, key, longId, flags, parent, name, kind, status, ...rest]: TreeCells,
): NarrowObservation {
  const [startMs, startNs, endMs, endNs, model, usage, error, details, ...times] = rest;
  const [updatedAt, newestMs] = times;
  return {
    id: idOf(traceId, key, longId),
    parentId: parentFromColumn(traceId, parent),
    name: cutText(name),
    kind: kindOf(kind),
    status: statusOf(status),
    state: stateOf(statusOf(status), isEnded(flags), newestMs, staleBefore),
    startMs,
    startNs,
    endMs,
    endNs,
    model: cutText(model),
    usage: closed(usage),
    error: closed(error),
    details: detailsFromColumn(details),
    updatedAt,
  };
}

/** The part of an observation that the totals of its trace depend on. */
export function usageNodeOf({
  id,
  parentId,
  startMs,
  startNs,
  endMs,
  endNs,
  model,
  usage,
  details,
}: NarrowObservation): UsageNode {
  return {
    id,
    parentId,
    start: startMs === null ? null : startMs + (startNs ?? 0) / 1e6,
    end: endMs === null ? null : endMs + (endNs ?? 0) / 1e6,
    model,
    scope: details?.scope ?? null,
    responseId: details?.responseId ?? null,
    usage: usage === null ? null : (decodeJsonText(usage) as TokenUsage),
    cost: details?.cost ?? null,
  };
}

/** An observation without usage and cost is not counted. */
export function placeInTree(
  { id, usage, cost }: Pick<UsageNode, 'id' | 'usage' | 'cost'>,
  { countedUsage, countedCost, cycles }: TraceTotals,
): TreePlace {
  const hasCountedCost = cost !== null && countedCost.has(id);
  return {
    counted: usage === null ? hasCountedCost : countedUsage.has(id),
    costCounted: hasCountedCost,
    cycle: cycles.has(id),
  };
}

/** Whether totals know of the usage and the cost of an observation, which may arrive after they were made. */
export function isSummed(
  { id, usage, cost }: Pick<UsageNode, 'id' | 'usage' | 'cost'>,
  { summedUsage, summedCost }: TraceTotals,
): boolean {
  return (usage === null || summedUsage.has(id)) && (cost === null || summedCost.has(id));
}
