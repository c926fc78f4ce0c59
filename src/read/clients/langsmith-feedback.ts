import { answer } from '../../http/exchange.ts';
import { Refusal } from '../../model/errors.ts';
import type { FoundScore, Score } from '../../store/scores.ts';
import { editedScores } from '../../store/scores.ts';
import type { StoredObservation } from '../../store/store.ts';
import { answerJson } from '../answer.ts';
import { jsonBody } from '../json-body.ts';
import { newScore } from '../new-score.ts';
import type { TraceScore } from '../store-scores.ts';
import { putScore, storeScore } from '../store-scores.ts';
import type { StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import { changedComment, commentWith, remarksIn } from './corrections.ts';
import type { Members } from './members.ts';
import { objectOf, textIn } from './members.ts';
import { pageOfClient } from './page.ts';
import type { RunPlace } from './run-ids.ts';
import { findRun, lonelySpanId, storedTraceId } from './run-ids.ts';
import { halvesOfUuid, isOtlpTrace, uuidOf, uuidOfRun, uuidOfTrace } from './uuid.ts';

/** Bytes of one feedback. */
export const MAX_FEEDBACK_BYTES = 65_536;
/** The most runs whose feedback one request lists. */
const MAX_RUNS = 100;

/** Feedback of LangSmith's clients, which is stored as scores. */
export const FEEDBACK_REQUESTS: readonly ClientRequest[] = [
  {
    method: 'POST',
    paths: ['/api/v1/feedback', '/feedback'],
    permissions: ['ingest:write'],
    work: createFeedback,
  },
  {
    method: 'GET',
    paths: ['/api/v1/feedback', '/feedback'],
    permissions: ['traces:read'],
    work: listFeedback,
  },
  {
    method: 'GET',
    paths: ['/api/v1/feedback/:id', '/feedback/:id'],
    permissions: ['traces:read'],
    work: readFeedback,
  },
  {
    method: 'PATCH',
    paths: ['/api/v1/feedback/:id', '/feedback/:id'],
    permissions: ['ingest:write'],
    work: updateFeedback,
  },
  {
    method: 'DELETE',
    paths: ['/api/v1/feedback/:id', '/feedback/:id'],
    permissions: ['ingest:write'],
    work: deleteFeedback,
  },
];

async function createFeedback(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const given = objectOf(await jsonBody(exchange, read, MAX_FEEDBACK_BYTES), 'The body');
  const about = await scoreOfFeedback(reading, given, exchange.clock.now());
  await put(reading, about, textIn(given, 'run_id'));
}

/** The score of feedback, and its trace. Rejects with a `Refusal` (400) that names the member. */
export async function scoreOfFeedback(
  place: RunPlace,
  given: Members,
  now: number,
): Promise<TraceScore> {
  const { traceId, observationId } = await aboutOf(place, given);
  const score = newScore(
    {
      ...{ id: given.id, name: given.key, value: feedbackValue(given) },
      comment: commentWith({ comment: given.comment, correction: given.correction }),
      observation_id: observationId,
      source: sourceOf(given),
    },
    now,
  );
  return { traceId, score };
}

/** The trace, and the observation unless the trace is meant. */
type About = { readonly traceId: string; readonly observationId: string | null };

async function aboutOf(place: RunPlace, given: Members): Promise<About> {
  const [runId, named] = [textIn(given, 'run_id'), textIn(given, 'trace_id')];
  if (named !== undefined) return aboutInTrace(place, named, runId);
  if (runId === undefined) {
    throw new Refusal(
      'invalid_request',
      'Feedback needs run_id or trace_id; feedback about a whole project is not served.',
    );
  }
  const found = await findRun(place, runId);
  if (found !== undefined) return aboutFound(found, runId);
  if (lonelySpanId(runId) !== undefined) {
    throw new Refusal(
      'invalid_request',
      'run_id has the span id alone, by which no span is found: give trace_id too, or the id of the run in a list of runs.',
    );
  }
  // A run that the store does not have yet counts as a root, whose trace has its id.
  return { traceId: runId, observationId: null };
}

async function aboutInTrace(
  place: RunPlace,
  named: string,
  runId: string | undefined,
): Promise<About> {
  const traceId = await storedTraceId(place, named, runId);
  if (runId === undefined || runId === named) return { traceId, observationId: null };
  // A trace of runs has the id of the client: so has the run, whether it is stored or not.
  if (!isOtlpTrace(traceId)) return { traceId, observationId: runId === traceId ? null : runId };
  const found = await findRun(place, runId, traceId);
  if (found !== undefined) return aboutFound(found, runId);
  return { traceId, observationId: `${traceId}:${halvesOfUuid(runId)?.[1] ?? runId}` };
}

/** Feedback on the root of OTLP is about its trace, as that on the root of runs is. */
function aboutFound({ id, traceId, parentId }: StoredObservation, runId: string): About {
  const isRoot = id === runId ? id === traceId : parentId === null;
  return { traceId, observationId: isRoot ? null : id };
}

async function put(reading: StoreReading, about: TraceScore, runId?: string): Promise<void> {
  answerStored(reading, about.traceId, await storeScore(reading, about), runId);
}

function answerStored(
  reading: StoreReading,
  traceId: string,
  stored: Score | Refusal,
  runId?: string,
): void {
  if (stored instanceof Refusal) throw stored;
  const body = JSON.stringify(feedbackMembers({ traceId, score: stored }, reading, runId));
  answer(reading.exchange, { status: 200, contentType: 'application/json', body });
}

async function listFeedback(reading: StoreReading): Promise<void> {
  const { exchange, query, store, tenant, read } = reading;
  const runs = query.getAll('run');
  if (runs.length === 0 || runs.length > MAX_RUNS) {
    throw new Refusal('invalid_request', `Feedback is listed by run, for 1 to ${MAX_RUNS} runs.`);
  }
  const keys = query.getAll('key');
  const found: (FoundScore & { readonly runId: string })[] = [];
  for (const runId of runs) {
    const { traceId, observationIds } = await aboutRun(reading, runId);
    const scores = await read.turn(() => store.scores.list(tenant.projectId, traceId));
    for (const score of scores) {
      const isAsked = keys.length === 0 || keys.includes(score.name);
      const isOfRun = observationIds.includes(score.observationId);
      if (isOfRun && isAsked) found.push({ traceId, score, runId });
    }
  }
  const { offset, limit } = pageOfClient(query);
  const shown = found
    .slice(offset, offset + limit)
    .map((one) => feedbackMembers(one, reading, one.runId));
  answerJson(exchange, read, JSON.stringify(shown));
}

/** The observations that the scores of a run name. Other clients may name the root of a trace, in place of the trace. */
async function aboutRun(
  reading: StoreReading,
  runId: string,
): Promise<{ readonly traceId: string; readonly observationIds: readonly (string | null)[] }> {
  const found = await findRun(reading, runId);
  if (found === undefined) return { traceId: runId, observationIds: [null, runId] };
  const { traceId, observationId } = aboutFound(found, runId);
  return { traceId, observationIds: [observationId, found.id] };
}

async function readFeedback(reading: StoreReading): Promise<void> {
  const found = await foundIn(reading);
  answerJson(reading.exchange, reading.read, JSON.stringify(feedbackMembers(found, reading)));
}

async function foundIn({ exchange, store, tenant, read }: StoreReading): Promise<FoundScore> {
  const id = exchange.params.id ?? '';
  const found = await read.turn(() => store.scores.find(tenant.projectId, id));
  if (found === undefined) throw unknown('feedback');
  return found;
}

/**
 * Members that are not given stay as they are stored: the editors have edited them before, and a hash of a hash is another one. They get a
 * score that has only the given texts.
 */
async function updateFeedback(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const given = objectOf(await jsonBody(exchange, read, MAX_FEEDBACK_BYTES), 'The body');
  const { traceId, score } = await foundIn(reading);
  const before = remarksIn(score.comment);
  const isValued = given.score !== undefined || given.value !== undefined;
  const changed = newScore(
    {
      ...{ id: score.id, name: score.name, source: score.source },
      observation_id: score.observationId,
      value: isValued ? feedbackValue(given) : score.value,
      comment: commentWith({
        comment: given.comment === undefined ? before.comment : given.comment,
        correction: given.correction === undefined ? before.correction : given.correction,
      }),
    },
    exchange.clock.now(),
  );
  const sent = {
    ...changed,
    ...{ name: '', source: null, value: isValued ? changed.value : 0 },
    comment: textOrNull(commentWith({ comment: given.comment, correction: given.correction })),
  };
  const [edited = sent] = await editedScores(reading.scoreEditors, [sent]);
  const stored = await putScore(reading, {
    traceId,
    score: {
      ...changed,
      value: isValued ? edited.value : score.value,
      comment: changedComment(score.comment, given, edited.comment),
    },
  });
  const mayRead = reading.tenant.permissions.includes('traces:read');
  if (stored instanceof Refusal || mayRead) return answerStored(reading, traceId, stored);
  // The rest is stored data, and clients do not read it here.
  answer(exchange, {
    ...{ status: 200, contentType: 'application/json' },
    body: JSON.stringify({ id: uuidOf(score.id) }),
  });
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

async function deleteFeedback({ exchange, store, tenant }: StoreReading): Promise<void> {
  const isRemoved = await store.scores.remove(tenant.projectId, exchange.params.id ?? '');
  if (!isRemoved) throw unknown('feedback');
  answer(exchange, { status: 200, contentType: 'application/json', body: '{}' });
}

/** The score, else the value, which may be an object; feedback that is only a comment has an empty text. */
function feedbackValue({ score, value }: Members): unknown {
  if (score !== undefined && score !== null) return score;
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : value;
}

function sourceOf({ feedback_source: source }: Members): unknown {
  if (typeof source !== 'object' || source === null) return null;
  return 'type' in source ? source.type : null;
}

/** `runId`: as the client names the run. */
function feedbackMembers({ traceId, score }: FoundScore, { tenant }: StoreReading, runId?: string) {
  const { id, observationId, name, value, comment, source } = score;
  const at = new Date(score.createdAt).toISOString();
  const isText = typeof value === 'string';
  return {
    ...{ id: uuidOf(id), created_at: at, modified_at: at },
    ...{ run_id: runId ?? runIdOf(traceId, observationId), trace_id: uuidOfTrace(traceId) },
    ...{ key: name, score: isText ? null : value, value: isText ? value : null },
    ...remarksIn(comment),
    ...{ extra: null, session_id: uuidOf(tenant.projectId) },
    feedback_source: { type: source ?? 'api', metadata: {} },
  };
}

function runIdOf(traceId: string, observationId: string | null): string {
  return observationId === null ? uuidOfTrace(traceId) : uuidOfRun(observationId);
}
