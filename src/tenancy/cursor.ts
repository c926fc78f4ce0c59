import { StoreError } from '../model/errors.ts';

/** Points behind an entry of a numbered listing. */
export function cursorAfter(n: number): string {
  return Buffer.from(`n${n}`).toString('base64url');
}

/** The number behind which the next page begins; without a cursor at the newest. */
export function numberOf(cursor: string | undefined): number {
  if (cursor === undefined) return Number.MAX_SAFE_INTEGER;
  const match = /^n(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1'));
  if (match === null) throw new StoreError('invalid_cursor', 'the cursor is none of this listing');
  return Number(match[1]);
}
