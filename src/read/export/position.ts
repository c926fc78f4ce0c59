import { foreignCursor } from '../list-cursor.ts';

/**
 * Where an export is: behind a trace of the list, and within a trace whose observations are not all written. A trace is
 * named by its id there, so that a trace that comes in between repeats and skips nothing.
 */
export type ExportPosition = {
  /** The store's cursor behind a trace; undefined at the beginning. */
  readonly behind: string | undefined;
  /** A trace that is in front of `behind`, and the store's cursor of the next observation. */
  readonly within?: { readonly traceId: string; readonly cursor: string } | undefined;
};

export function positionText({ behind, within }: ExportPosition): string {
  const parts = within === undefined ? [behind] : [behind, within.traceId, within.cursor];
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** Throws a `Refusal` (400) for any other text. */
export function positionOfText(text: string): ExportPosition {
  const [behind, traceId, cursor, ...rest] = partsOf(text);
  if (behind === undefined || rest.length > 0) throw foreignCursor();
  if (traceId === undefined) return { behind };
  if (cursor === undefined) throw foreignCursor();
  return { behind, within: { traceId, cursor } };
}

function partsOf(text: string): string[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    if (Array.isArray(parts) && parts.every((part) => typeof part === 'string')) return parts;
  } catch (error) {
    throw foreignCursor(error);
  }
  throw foreignCursor();
}
