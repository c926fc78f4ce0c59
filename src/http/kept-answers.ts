import type { Clock } from '../component/component.ts';
import { tokenBuckets } from '../component/token-buckets.ts';
import type { SealedBatch } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';

/** Bytes of results of rejected items that a process keeps for a project: at once, and each second from then on. */
export const KEPT_AT_ONCE = 32 * 1_048_576;
export const KEPT_PER_SECOND = 32_768;
/** The project that sent rejected items longest ago is forgotten. */
const MAX_PROJECTS = 10_000;

/**
 * A kept answer has a result for each rejected item, and usage counts rejected items with no byte. So a body of a few KiB makes the store
 * keep a hundred KiB for as long as answers are kept, again and again: the disk of all projects would be full of them.
 */
export type KeptAnswers = {
  /** Throws a `Refusal` (429) if the answer to this batch would be too much. A single one always fits, after a time. */
  admit(batch: SealedBatch, answerBytes: number): void;
};

export function keptAnswers(clock: Clock): KeptAnswers {
  const buckets = tokenBuckets(
    { perSecond: KEPT_PER_SECOND, burst: KEPT_AT_ONCE, maxNames: MAX_PROJECTS },
    clock,
  );
  return {
    admit({ tenant, rejections, requestItems }, answerBytes) {
      if (rejections.length === 0) return;
      const bytes = Math.ceil((answerBytes * rejections.length) / requestItems);
      const wait = buckets.take(tenant.projectId, bytes);
      if (wait === 0) return;
      const message =
        'This project has many rejected items, whose results are kept for repeated requests. Send fewer of them, or try again.';
      throw new Refusal('rate_limited', message, { retryAfterMs: Math.max(1000, Math.ceil(wait)) });
    },
  };
}
