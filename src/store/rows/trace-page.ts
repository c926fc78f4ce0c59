import type { Page, StoredTrace } from '../store.ts';
import { cursorOf } from './place.ts';
import { type TraceRow, traceOf } from './stored.ts';

/** A page of a listing, of `limit` traces; `rows` has one more where there are more. */
export function tracePage(rows: readonly TraceRow[], limit: number): Page<StoredTrace> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  const more = rows.length > limit && last !== undefined;
  return {
    items: items.map(traceOf),
    nextCursor: more ? cursorOf([last[3], last[4], last[0]]) : null,
  };
}

/** The trace in the id of a span, which begins with its trace's; undefined where it is none. */
export function traceInId(id: string): string | undefined {
  const colon = id.length - 17;
  return colon > 0 && id[colon] === ':' ? id.slice(0, colon) : undefined;
}
