import { StoreError } from '../model/errors.ts';

/** The cursor after an entry of a numbered listing. */
export function cursorAfter(n: number): string {
  return Buffer.from(`n${n}`).toString('base64url');
}

/** The number below which the next page begins. Without a cursor the page begins at the newest entry. */
export function numberOf(cursor: string | undefined): number {
  if (cursor === undefined) return Number.MAX_SAFE_INTEGER;
  const match = /^n(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1'));
  if (match === null) throw new StoreError('invalid_cursor', 'the cursor is not from this listing');
  return Number(match[1]);
}
