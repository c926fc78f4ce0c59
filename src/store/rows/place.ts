import { StoreError } from '../../model/errors.ts';

/** Where a page of a listing ended: a time, and a number among equals. */
export type Place = readonly [ms: number, ns: number, n: number];

export function cursorOf(place: Place): string {
  return Buffer.from(place.join('.')).toString('base64url');
}

export function placeOf(cursor: string | undefined): Place | null {
  if (cursor === undefined) return null;
  const match = /^(-?\d{1,16})\.(\d{1,6})\.(\d{1,16})$/.exec(
    Buffer.from(cursor, 'base64url').toString('latin1'),
  );
  if (match === null) throw new StoreError('invalid_cursor', 'the cursor is none of this listing');
  return [Number(match[1]), Number(match[2]), Number(match[3])];
}
