import type { Page, StoredTrace } from '../store.ts';
import { cursorOf } from './place.ts';
import { type TraceRow, traceOf } from './stored.ts';

/** A page of `limit` traces; `rows` has one more if there is a next page. */
export function tracePage(rows: readonly TraceRow[], limit: number): Page<StoredTrace> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  if (last === undefined || rows.length <= limit) {
    return { items: items.map(traceOf), nextCursor: null };
  }
  const [n, ms, ns] = last;
  return { items: items.map(traceOf), nextCursor: cursorOf({ ms, ns, n }) };
}

/** The trace id that the id of a span begins with; undefined for an id of another form. */
export function traceInId(id: string): string | undefined {
  const colon = id.length - 17;
  return colon > 0 && id[colon] === ':' ? id.slice(0, colon) : undefined;
}
