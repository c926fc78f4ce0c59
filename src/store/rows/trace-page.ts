import type { Page, StoredTrace, TraceFilter } from '../store.ts';
import type { FoundRows } from './page.ts';
import { pageOfRows } from './page.ts';
import type { Place } from './place.ts';
import { type TraceRow, traceOf } from './stored.ts';

/** Traces of one step of a search: the step ends at the place of the last one, whether or not they match. */
export const SEARCHED_TRACES = 512;

/** The rows that a step found; `end` is the place of the last trace it looked at, null behind the last trace. */
export type TraceStep = FoundRows<TraceRow> & { readonly end: Place | null };

/** `staleBefore`: see `traceOf`. */
export function tracePage(step: TraceStep, staleBefore: number): Page<StoredTrace> {
  const itemOf = (row: TraceRow): StoredTrace => traceOf(row, staleBefore);
  return pageOfRows(step, ([n, ms, ns]) => ({ ms, ns, n }), itemOf, step.end);
}

/** The index by time does not find the traces: each must be looked at. */
export function isSearch({ status, kind, name, query }: TraceFilter): boolean {
  return status !== undefined || kind !== undefined || name !== undefined || query !== undefined;
}

/** The trace id that the id of a span begins with; undefined for an id of another form. */
export function traceInId(id: string): string | undefined {
  const colon = id.length - 17;
  return colon > 0 && id[colon] === ':' ? id.slice(0, colon) : undefined;
}
