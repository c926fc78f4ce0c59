import type { Clock } from '../component/component.ts';
import { projectBytes } from '../component/project-bytes.ts';
import type { Refusal } from '../model/errors.ts';
import type { NewScore } from '../store/scores.ts';

/** Bytes of scores that a process stores for a project: at once, and each second from then on. */
export const SCORES_AT_ONCE = 32 * 1_048_576;
export const SCORES_PER_SECOND = 65_536;
/** Of a score without texts, in a row and its indexes. */
const ROW_BYTES = 128;

/**
 * Usage counts no scores, and they may name traces that never arrive, so the bound of scores in a trace is none for a key. Without another
 * one, a key can fill the disk of all projects.
 */
export type ScoreBytes = {
  /** The refusal (429) if the project has stored too many scores of late. */
  admit(projectId: string, score: NewScore): Refusal | undefined;
};

export function scoreBytes(clock: Clock): ScoreBytes {
  const message = 'This project stores scores too fast. Send fewer of them, or try again.';
  const take = projectBytes(
    { atOnce: SCORES_AT_ONCE, perSecond: SCORES_PER_SECOND, message },
    clock,
  );
  return { admit: (projectId, score) => take(projectId, bytesOf(score)) };
}

function bytesOf({ id, observationId, name, value, comment, source }: NewScore): number {
  const texts = [id, observationId, name, comment, source, typeof value === 'string' ? value : ''];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), ROW_BYTES);
}
