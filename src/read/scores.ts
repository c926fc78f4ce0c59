import { answer } from '../http/exchange.ts';
import { Refusal } from '../model/errors.ts';
import type { Score } from '../store/scores.ts';
import { answerJson } from './answer.ts';
import { jsonBody } from './json-body.ts';
import { newScore } from './new-score.ts';
import { storeScore } from './store-scores.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import { unknown } from './stored-request.ts';

/** The body of a score with the longest texts, each character of which is escaped, is shorter. */
const MAX_BODY_BYTES = 65_536;

const PATH = '/traces/:trace_id/scores';

/** The requests about the scores of a trace. */
export const SCORE_REQUESTS: readonly StoredRequest[] = [
  { path: PATH, parameters: [], work: listScores },
  { path: PATH, method: 'POST', parameters: [], work: putScore },
];

async function listScores({ exchange, tenant, store, read }: StoreReading): Promise<void> {
  const { projectId } = tenant;
  const traceId = exchange.params.trace_id ?? '';
  const scores = await read.turn(() => store.scores.list(projectId, traceId));
  if (scores.length === 0) {
    const trace = await read.turn(() => store.traces.getTrace(projectId, traceId));
    if (trace === undefined) throw unknown('trace');
  }
  answerJson(exchange, read, JSON.stringify({ scores: scores.map(scoreMembers) }));
}

/** The answer follows the commit of the store. */
async function putScore(reading: StoreReading): Promise<void> {
  const { exchange, beforeWrite } = reading;
  const traceId = exchange.params.trace_id ?? '';
  const score = newScore(await bodyOf(reading), exchange.clock.now());
  await beforeWrite?.({ kind: 'score', trace: traceId, id: score.id });
  const stored = await storeScore(reading, { traceId, score });
  if (stored instanceof Refusal) throw stored;
  const body = JSON.stringify({ ...scoreMembers(stored), trace_id: traceId });
  answer(exchange, { status: 201, contentType: 'application/json', body });
}

function scoreMembers(score: Score): Readonly<Record<string, unknown>> {
  const { id, observationId, name, value, comment, source, createdAt } = score;
  const created_at = new Date(createdAt).toISOString();
  return { id, observation_id: observationId, name, value, comment, source, created_at };
}

/** The body as its listener has parsed it, else the JSON of the request. */
async function bodyOf({ exchange, read, body }: StoreReading): Promise<unknown> {
  return body ?? jsonBody(exchange, read, MAX_BODY_BYTES);
}
