import { Refusal } from '../model/errors.ts';
import type { NewScore, Score } from '../store/scores.ts';
import { editedScores } from '../store/scores.ts';
import type { StoreReading } from './stored-request.ts';

/** A score of a request, about a trace. */
export type TraceScore = { readonly traceId: string; readonly score: NewScore };

/** The most scores of one request. */
const MAX_SCORES = 1000;

/** Throws a `Refusal` (413) if a request has too many scores. */
export function checkCount(count: number): void {
  if (count <= MAX_SCORES) return;
  throw new Refusal('too_many_events', `The request has more than ${MAX_SCORES} scores.`);
}

/**
 * Stores scores and resolves with the outcome of each. Those of one trace are stored in their order, so that the last one with an
 * id stays.
 */
export async function storeScores(
  reading: StoreReading,
  asked: readonly (TraceScore | Refusal)[],
): Promise<(Score | Refusal)[]> {
  const scores = asked.flatMap((one) => (one instanceof Refusal ? [] : [one.score]));
  const edited = [...(await editedScores(reading.scoreEditors, scores))];
  const outcomes = new Map<number, Score | Refusal>();
  const ofTrace = new Map<string, (() => Promise<void>)[]>();
  for (const [position, one] of asked.entries()) {
    if (one instanceof Refusal) {
      outcomes.set(position, one);
      continue;
    }
    const { traceId } = one;
    const score = edited.shift() ?? one.score;
    const writes = ofTrace.get(traceId) ?? [];
    writes.push(async () => {
      outcomes.set(position, await putScore(reading, { traceId, score }));
    });
    ofTrace.set(one.traceId, writes);
  }
  await Promise.all([...ofTrace.values()].map(inTurn));
  return asked.flatMap((_, position) => outcomes.get(position) ?? []);
}

async function inTurn(writes: readonly (() => Promise<void>)[]): Promise<void> {
  for (const write of writes) await write();
}

/** Resolves with a `Refusal` if the trace has too many scores, or the project stores them too fast. */
export async function storeScore(
  place: ScorePlace,
  { traceId, score: given }: TraceScore,
): Promise<Score | Refusal> {
  const [score = given] = await editedScores(place.scoreEditors, [given]);
  return putScore(place, { traceId, score });
}

type ScorePlace = Pick<StoreReading, 'tenant' | 'store' | 'reads' | 'scoreEditors'>;

/** As `storeScore`, for a score that the editors have edited. */
export async function putScore(
  { tenant, store, reads }: ScorePlace,
  { traceId, score }: TraceScore,
): Promise<Score | Refusal> {
  const refusal = reads.scores.admit(tenant.projectId, score);
  if (refusal !== undefined) return refusal;
  const most = reads.limits.scores_per_trace;
  const stored = await store.scores.put(tenant.projectId, traceId, score, most);
  if (stored !== 'full') return stored;
  return new Refusal('too_many_scores', `The trace has ${most} scores, which is the limit.`);
}
