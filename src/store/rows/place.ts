import { StoreError } from '../../model/errors.ts';
import type { ObservationRow } from './observation-row.ts';
import { ROW } from './observation-row.ts';

/** The place of a row in a listing: its time, and its number among rows of the same time. */
export type Place = { readonly ms: number; readonly ns: number; readonly n: number };

/** The time of observations without a start: they come last. */
export const NO_START = Number.MAX_SAFE_INTEGER;
/** Before every observation. */
export const FIRST_PLACE: Place = { ms: Number.MIN_SAFE_INTEGER, ns: 0, n: 0 };

/** In a listing that begins with the newest: before it. */
export const BEFORE_NEWEST: Place = {
  ...{ ms: Number.MAX_SAFE_INTEGER, ns: 999_999, n: Number.MAX_SAFE_INTEGER },
};

/** Observations of a trace are in the order of their start, then of their arrival. */
export function placeOfRow(n: number, row: ObservationRow): Place {
  return { ms: row[ROW.START_MS] ?? NO_START, ns: row[ROW.START_NS] ?? 0, n };
}

/** Points behind a row of a listing. */
export function cursorOf({ ms, ns, n }: Place): string {
  return Buffer.from(`${ms}.${ns}.${n}`).toString('base64url');
}

/** The place behind which a page begins; null without a cursor. Throws `StoreError` for a cursor of another kind. */
export function placeOfCursor(cursor: string | undefined): Place | null {
  if (cursor === undefined) return null;
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  const match = /^(-?\d{1,16})\.(\d{1,6})\.(\d{1,16})$/.exec(text);
  if (match === null) throw new StoreError('invalid_cursor', 'the cursor is none of this listing');
  return { ms: Number(match[1]), ns: Number(match[2]), n: Number(match[3]) };
}
