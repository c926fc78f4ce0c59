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

export function remarksIn(stored: string | null): Remarks {
  const [, comment = null, json] = LAST_LINE.exec(stored ?? '') ?? [];
  const correction = json === undefined ? undefined : decodeCheckedText(json);
  return correction === undefined ? { comment: stored, correction: null } : { comment, correction };
}
