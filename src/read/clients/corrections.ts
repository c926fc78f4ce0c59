import { Refusal } from '../../model/errors.ts';
import { decodeCheckedText } from '../../model/json/checked.ts';
import { SCORE_BYTES } from '../new-score.ts';

/** The comment of feedback, and its correction: an object or a text. */
export type Remarks = { readonly comment: unknown; readonly correction: unknown };

const LAST_LINE = /^(?:([\s\S]*)\n)?Correction: (.+)$/;

/**
 * The comment of a score with the correction as its last line, because scores have no corrections. Throws a `Refusal` (400) if both
 * are longer than a comment may be.
 */
export function commentWith({ comment, correction }: Remarks): unknown {
  if (correction === undefined || correction === null) return comment;
  // A score refuses such a comment.
  if (typeof (comment ?? '') !== 'string') return comment;
  const line = `Correction: ${JSON.stringify(correction)}`;
  const text = comment ? `${comment}\n${line}` : line;
  if (Buffer.byteLength(text) > SCORE_BYTES.comment) {
    throw new Refusal(
      'invalid_request',
      `comment and correction must have at most ${SCORE_BYTES.comment} bytes together.`,
    );
  }
  return text;
}

/**
 * The stored comment with the remarks that were given; `sent` is their text, as `commentWith` makes it, after the editors. A remark that
 * is absent stays as it is stored.
 */
export function changedComment(
  stored: string | null,
  given: Partial<Remarks>,
  sent: string | null,
): string | null {
  if (given.comment !== undefined && given.correction !== undefined) return sent;
  if (given.comment === undefined && given.correction === undefined) return stored;
  const [before, line] = partsOf(stored);
  const parts = given.correction === undefined ? [sent, line] : [before, sent];
  const kept = parts.filter((part) => part !== null && part !== '');
  return kept.length === 0 ? null : kept.join('\n');
}

/** The comment, and the line of the correction. */
function partsOf(stored: string | null): readonly [string | null, string | null] {
  if (stored === null || remarksIn(stored).correction === null) return [stored, null];
  const end = stored.lastIndexOf('\n');
  return end === -1 ? [null, stored] : [stored.slice(0, end), stored.slice(end + 1)];
}

export function remarksIn(stored: string | null): Remarks {
  const [, comment = null, json] = LAST_LINE.exec(stored ?? '') ?? [];
  const correction = json === undefined ? undefined : decodeCheckedText(json);
  return correction === undefined ? { comment: stored, correction: null } : { comment, correction };
}
