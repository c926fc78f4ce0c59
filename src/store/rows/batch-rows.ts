import type { ObservationBatch, SealedBatch } from '../../model/batch.ts';
import { sourceOf, storedPositionsOf } from '../../model/formats.ts';
import type { AttachmentRef } from '../attachments.ts';
import { attachmentRefs } from '../attachments.ts';
import type { FlatRows, Key, RowCell } from './observation-row.ts';
import { keyOfId, rowOf } from './observation-row.ts';

/** The events of one trace. */
export type TraceRows = {
  readonly key: Key;
  /** The trace's id, if the key is its hash. */
  readonly longId: string | null;
  readonly rows: FlatRows;
};

/** The observations of a batch as rows. */
export type BatchRows = {
  readonly traces: readonly TraceRows[];
  /** Rows of runs that name neither a trace nor a parent. */
  readonly updates: FlatRows;
  /** Rows of runs that name a parent and no trace, each after its parent's key. */
  readonly children: FlatRows;
  /** Whether some rows may have a cell in `copy` (copies.ts). */
  readonly hasCopies: boolean;
  readonly attachments: readonly AttachmentRef[];
  readonly count: number;
};

/** Groups the rows by trace. */
export function rowsOf(
  source: SealedBatch,
  observations: ObservationBatch['observations'],
  positions: Map<number, number> | undefined,
): BatchRows {
  const traces = new Map<string, { key: Key; longId: string | null; rows: RowCell[] }>();
  const updates: RowCell[] = [];
  const children: RowCell[] = [];
  let hasCopies = false;
  const protocol = sourceOf(source.format);
  for (const observation of observations) {
    const { id, traceId, parentId, index } = observation;
    if (observation.sentTwice === true) hasCopies = true;
    const position = positions === undefined ? index : (positions.get(index) ?? index);
    const row = rowOf(observation, traceId ?? '', position, protocol);
    if (traceId === null) {
      if (parentId === null || parentId === id) updates.push(...row);
      else children.push(keyOfId(parentId), ...row);
      continue;
    }
    let trace = traces.get(traceId);
    if (trace === undefined) {
      const key = keyOfId(traceId);
      trace = { key, longId: typeof key === 'string' ? null : traceId, rows: [] };
      traces.set(traceId, trace);
    }
    trace.rows.push(...row);
  }
  return {
    ...{ traces: [...traces.values()], updates, children, count: observations.length },
    attachments: attachmentRefs(observations),
    hasCopies,
  };
}

/** The positions by which rows refer to the request's items, if some items were cut out; undefined if none was. */
export function positionsOf(source: SealedBatch): Map<number, number> | undefined {
  const { positions, gaps } = source;
  if (positions === undefined) return undefined;
  if (gaps === undefined) return new Map(positions.map((index, position) => [index, position]));
  const stored = storedPositionsOf(source);
  return new Map(positions.map((index, position) => [index, stored[position] ?? position]));
}
