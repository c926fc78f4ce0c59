import type { Clock } from '../component/component.ts';
import { projectBytes } from '../component/project-bytes.ts';
import type { SealedBatch } from '../model/batch.ts';

/** Bytes of results of rejected items that a process keeps for a project: at once, and each second from then on. */
export const KEPT_AT_ONCE = 32 * 1_048_576;
export const KEPT_PER_SECOND = 32_768;

/**
 * A kept answer has a result for each rejected item, and usage counts rejected items with no byte. So a body of a few KiB makes the store
 * keep a hundred KiB for as long as answers are kept, again and again: the disk of all projects would be full of them.
 */
export type KeptAnswers = {
  /** Throws a `Refusal` (429) if the answer to this batch would be too much. A single one always fits, after a time. */
  admit(batch: SealedBatch, answerBytes: number): void;
};

export function keptAnswers(clock: Clock): KeptAnswers {
  const message =
    'This project has many rejected items, whose results are kept for repeated requests. Send fewer of them, or try again.';
  const take = projectBytes({ atOnce: KEPT_AT_ONCE, perSecond: KEPT_PER_SECOND, message }, clock);
  return {
    admit({ tenant, rejections, requestItems }, answerBytes) {
      if (rejections.length === 0) return;
      const bytes = Math.ceil((answerBytes * rejections.length) / requestItems);
      const refusal = take(tenant.projectId, bytes);
      if (refusal !== undefined) throw refusal;
    },
  };
}
