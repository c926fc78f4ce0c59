import type { TreePlace } from '../observation-json.ts';
import type { TreeObservation } from '../store.ts';
import type { TraceTotals, UsageNode } from './trace-totals.ts';

/** The part of an observation that the totals of its trace depend on. */
export function usageNodeOf(observation: TreeObservation): UsageNode {
  const { id, parentId, startTime, endTime, model, usage, details } = observation;
  return {
    id,
    parentId,
    start: startTime === null ? null : startTime.ms + startTime.ns / 1e6,
    end: endTime === null ? null : endTime.ms + endTime.ns / 1e6,
    model,
    scope: details?.scope ?? null,
    usage,
    cost: details?.cost ?? null,
  };
}

/** An observation without usage and cost is not counted. */
export function placeInTree(
  { id, usage, details }: TreeObservation,
  { counted, cycles }: TraceTotals,
): TreePlace {
  const isCounted = counted.has(id) && (usage !== null || details?.cost !== undefined);
  return { counted: isCounted, cycle: cycles.has(id) };
}
