import type { Look } from '../plan/step.ts';
import type { StoredTrace, TraceFilter, TracePage } from '../store.ts';
import type { FoundRows } from './page.ts';
import { pageOfRows } from './page.ts';
import type { Place } from './place.ts';
import { placeOfCursor } from './place.ts';
import { type TraceRow, traceOf } from './stored.ts';

/** Traces of one step of a search: the step ends at the place of the last one, whether or not they match. */
export const SEARCHED_TRACES = 512;

/** The rows that a step found; `end` is the place of the last trace it looked at, null behind the last trace. */
export type TraceStep = FoundRows<TraceRow> & {
  readonly end: Place | null;
  readonly spentMs: number;
};

/** `staleBefore`: see `traceOf`. Throws `StoreError` for a cursor of another kind. */
export function lookOf(filter: TraceFilter, staleBefore: number): Look {
  const { query = { terms: [] }, limit, cursor, isAscending = false } = filter;
  const size = filter.size ?? SEARCHED_TRACES;
  return { query, limit, after: placeOfCursor(cursor), isAscending, size, staleBefore };
}

export function tracePage(step: TraceStep, staleBefore: number): TracePage {
  const itemOf = (row: TraceRow): StoredTrace => traceOf(row, staleBefore);
  const page = pageOfRows(step, placeOfTrace, itemOf, step.end);
  const last = step.hasMore ? step.rows.at(-1) : undefined;
  const { ms, ns } = last === undefined ? (step.end ?? NOWHERE) : placeOfTrace(last);
  return { ...page, searchedTo: ms === null ? null : { ms, ns }, spentMs: step.spentMs };
}

const NOWHERE = { ms: null, ns: 0 };

export function placeOfTrace([n, ms, ns]: TraceRow): Place {
  return { ms, ns, n };
}

/** The first text behind all that consist of a beginning and hex digits. */
export function behindHex(beginning: string): string {
  return `${beginning}g`;
}

/** The trace id that the id of a span begins with; undefined for an id of another form. */
export function traceInId(id: string): string | undefined {
  const colon = id.length - 17;
  return colon > 0 && id[colon] === ':' ? id.slice(0, colon) : undefined;
}
