import type { ObservationBatch, SealedBatch } from '../../model/batch.ts';
import { sourceOf } from '../../model/formats.ts';
import type { Key } from './observation-row.ts';
import { keyOfId, rowOf } from './observation-row.ts';

export type BatchRows = {
  /** Each with its key, its id where that is long, and its rows. */
  traces: [key: Key, longId: string | null, rows: unknown[]][];
  /** Of runs that name neither trace nor parent. */
  updates: unknown[];
  /** Of runs that name a parent and no trace; each with its parent's key in front. */
  children: unknown[];
  count: number;
};

/** Rows by trace, one after another in flat lists, which cost least on their way to a thread. */
export function rowsOf(
  source: SealedBatch,
  observations: ObservationBatch['observations'],
  positions: Map<number, number> | undefined,
): BatchRows {
  const traces = new Map<string, [Key, string | null, unknown[]]>();
  const updates: unknown[] = [];
  const children: unknown[] = [];
  const protocol = sourceOf(source.format);
  for (const observation of observations) {
    const { id, traceId, parentId, index } = observation;
    const position = positions === undefined ? index : (positions.get(index) ?? index);
    const row = rowOf(observation, traceId ?? '', position, protocol);
    if (traceId === null) {
      if (parentId === null || parentId === id) updates.push(...row);
      else children.push(keyOfId(parentId), ...row);
      continue;
    }
    let rows = traces.get(traceId);
    if (rows === undefined) {
      const key = keyOfId(traceId);
      rows = [key, typeof key === 'string' ? null : traceId, []];
      traces.set(traceId, rows);
    }
    rows[2].push(...row);
  }
  return { traces: [...traces.values()], updates, children, count: observations.length };
}

/** Positions of a request's items in its body, if some were cut out. */
export function positionsOf(source: SealedBatch): Map<number, number> | undefined {
  if (source.positions === undefined) return undefined;
  return new Map(source.positions.map((index, position) => [index, position]));
}
