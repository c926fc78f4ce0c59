import type { FeedbackIntake } from '../../http/feedback.ts';
import { Refusal, StoreError } from '../../model/errors.ts';
import { decodeCheckedText } from '../../model/json/checked.ts';
import type { FeedbackPart } from '../../model/runs/assemble.ts';
import type { Reads } from '../reads.ts';
import { storeScore } from '../store-scores.ts';
import type { StoreReading } from '../stored-request.ts';
import { MAX_FEEDBACK_BYTES, scoreOfFeedback } from './langsmith-feedback.ts';
import { objectOf } from './members.ts';
import type { RunPlace } from './run-ids.ts';

/** The most feedback of one request; LangSmith's clients send 100 runs and feedback together. */
const MAX_FEEDBACK = 1000;

/** Feedback in parts of a multipart request, as scores. A part that is malformed, or one too many, is left out: the runs are accepted all the same. */
export function feedbackIntake(reads: Reads): FeedbackIntake {
  return async ({ now, ...place }, parts) => {
    let left = Math.max(0, parts.length - MAX_FEEDBACK);
    for (const part of parts.slice(0, MAX_FEEDBACK)) {
      if (!(await isStored({ ...place, reads }, part, now))) left++;
    }
    return left;
  };
}

async function isStored(
  place: RunPlace & Pick<StoreReading, 'reads' | 'scoreEditors'>,
  { id, json }: FeedbackPart,
  now: number,
): Promise<boolean> {
  if (json.length > MAX_FEEDBACK_BYTES) return false;
  try {
    const given = objectOf(decodeCheckedText(json.toString()), 'Feedback');
    const about = await scoreOfFeedback(place, { ...given, id: given.id ?? id }, now);
    return !((await storeScore(place, about)) instanceof Refusal);
  } catch (error) {
    if (error instanceof Refusal || error instanceof StoreError) return false;
    throw error;
  }
}
