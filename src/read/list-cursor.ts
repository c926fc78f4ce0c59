import { createHash } from 'node:crypto';
import { Refusal } from '../model/errors.ts';

/** The form of cursors; one of an earlier version is refused. */
const VERSION = '1';
const HASH_CHARACTERS = 12;

/** Cursors of one list: a cursor of another list, such as of another query or project, is refused. */
export type ListCursors = {
  /** The store's cursor in a client's one. Throws a `Refusal` (400). */
  read(cursor: string | undefined): string | undefined;
  /** The client's cursor for a cursor of the store. */
  write(inStore: string | null): string | null;
};

/** `about` names the list: everything that decides which items it has and their order. */
export function listCursors(...about: readonly string[]): ListCursors {
  const hash = createHash('sha256').update(JSON.stringify(about)).digest('base64url');
  const prefix = `${VERSION}.${hash.slice(0, HASH_CHARACTERS)}.`;
  return {
    read(cursor) {
      if (cursor === undefined) return undefined;
      if (cursor.startsWith(prefix)) return cursor.slice(prefix.length);
      throw foreignCursor();
    },
    write: (inStore) => (inStore === null ? null : prefix + inStore),
  };
}

export function foreignCursor(cause?: unknown): Refusal {
  const message = 'The cursor is not from this list. Begin without a cursor.';
  return new Refusal('invalid_cursor', message, { cause });
}
