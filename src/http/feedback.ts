import type { Tenant } from '../model/batch.ts';
import type { FeedbackPart } from '../model/runs/assemble.ts';
import type { ScoreEditor } from '../store/scores.ts';
import type { Store } from '../store/store.ts';

/**
 * Stores feedback that arrives with runs, and resolves with the number of those that cannot be stored. The reading routes have it,
 * because they know the rules of scores.
 */
export type FeedbackIntake = (
  place: FeedbackTarget,
  parts: readonly FeedbackPart[],
) => Promise<number>;

type FeedbackTarget = {
  readonly tenant: Tenant;
  readonly store: Store;
  readonly scoreEditors: readonly ScoreEditor[];
  readonly now: number;
};

/**
 * The feedback of a request. It is stored once the processors have decided, so a refused request stores none of it, and before the runs: if
 * they cannot be made durable, the client repeats the request, and the same feedback is stored again under its ids. Feedback behind the
 * runs would be lost, because a repetition is answered before it is stored: a request with feedback claims its implicit key.
 */
export type RequestFeedback = {
  /** Rejects if the store is away; then the runs must not be accepted. */
  store(): Promise<void>;
  readonly stored: number;
};

export function requestFeedback(
  intake: FeedbackIntake,
  target: FeedbackTarget,
  parts: readonly FeedbackPart[],
): RequestFeedback {
  let stored = 0;
  return {
    async store() {
      stored = parts.length - (await intake(target, parts));
    },
    get stored() {
      return stored;
    },
  };
}
