import { answer } from '../../http/exchange.ts';
import type { Tenant } from '../../model/batch.ts';
import { Refusal } from '../../model/errors.ts';
import type { FoundScore } from '../../store/scores.ts';
import type { Store } from '../../store/store.ts';
import { answerJson } from '../answer.ts';
import { jsonBody } from '../json-body.ts';
import { newScore } from '../new-score.ts';
import type { Read } from '../reads.ts';
import type { TraceScore } from '../store-scores.ts';
import { storeScore } from '../store-scores.ts';
import type { StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import type { Members } from './members.ts';
import { objectOf, textIn } from './members.ts';
import { pageOfClient } from './page.ts';
import { uuidOf } from './uuid.ts';

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
  await put(reading, await scoreOfFeedback(reading, given, exchange.clock.now()));
}

/** Whose feedback is stored, and where. */
export type FeedbackPlace = {
  readonly tenant: Tenant;
  readonly store: Store;
  readonly read?: Pick<Read, 'turn'>;
};

/** The score of feedback, and its trace. Rejects with a `Refusal` (400) that names the member. */
export async function scoreOfFeedback(
  place: FeedbackPlace,
  given: Members,
  now: number,
): Promise<TraceScore> {
  const runId = textIn(given, 'run_id') ?? textIn(given, 'trace_id');
  if (runId === undefined) {
    throw new Refusal(
      'invalid_request',
      'Feedback needs run_id or trace_id; feedback about a whole project is not served.',
    );
  }
  const traceId = textIn(given, 'trace_id') ?? (await traceOf(place, runId)) ?? runId;
  const score = newScore(
    {
      ...{ id: given.id, name: given.key, value: feedbackValue(given), comment: given.comment },
      observation_id: runId === traceId ? null : runId,
      source: sourceOf(given),
    },
    now,
  );
  return { traceId, score };
}

/** A run that the store does not have yet counts as a root, whose trace has its id. */
async function traceOf(
  { store, tenant, read }: FeedbackPlace,
  runId: string,
): Promise<string | undefined> {
  const find = () => store.traces.getObservation(tenant.projectId, runId);
  const found = await (read === undefined ? find() : read.turn(find));
  return found?.traceId;
}

async function put(reading: StoreReading, about: TraceScore): Promise<void> {
  const stored = await storeScore(reading, about);
  if (stored instanceof Refusal) throw stored;
  const { traceId } = about;
  const body = JSON.stringify(feedbackMembers({ traceId, score: stored }, reading));
  answer(reading.exchange, { status: 200, contentType: 'application/json', body });
}

async function listFeedback(reading: StoreReading): Promise<void> {
  const { exchange, query, store, tenant, read } = reading;
  const runs = query.getAll('run');
  if (runs.length === 0 || runs.length > MAX_RUNS) {
    throw new Refusal('invalid_request', `Feedback is listed by run, for 1 to ${MAX_RUNS} runs.`);
  }
  const keys = query.getAll('key');
  const found: FoundScore[] = [];
  for (const runId of runs) {
    const traceId = (await traceOf(reading, runId)) ?? runId;
    const scores = await read.turn(() => store.scores.list(tenant.projectId, traceId));
    for (const score of scores) {
      const isAsked = keys.length === 0 || keys.includes(score.name);
      if ((score.observationId ?? traceId) === runId && isAsked) found.push({ traceId, score });
    }
  }
  const { offset, limit } = pageOfClient(query);
  const shown = found.slice(offset, offset + limit).map((one) => feedbackMembers(one, reading));
  answerJson(exchange, read, JSON.stringify(shown));
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

/** Members that are not given stay. */
async function updateFeedback(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const given = objectOf(await jsonBody(exchange, read, MAX_FEEDBACK_BYTES), 'The body');
  const { traceId, score } = await foundIn(reading);
  const isValued = given.score !== undefined || given.value !== undefined;
  const changed = newScore(
    {
      ...{ id: score.id, name: score.name, source: score.source },
      observation_id: score.observationId,
      value: isValued ? feedbackValue(given) : score.value,
      comment: given.comment === undefined ? score.comment : given.comment,
    },
    exchange.clock.now(),
  );
  await put(reading, { traceId, score: changed });
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

function feedbackMembers({ traceId, score }: FoundScore, { tenant }: StoreReading) {
  const { id, observationId, name, value, comment, source } = score;
  const at = new Date(score.createdAt).toISOString();
  const isText = typeof value === 'string';
  return {
    ...{ id: uuidOf(id), created_at: at, modified_at: at },
    ...{ run_id: uuidOf(observationId ?? traceId), trace_id: uuidOf(traceId) },
    ...{ key: name, score: isText ? null : value, value: isText ? value : null },
    ...{ comment, correction: null, extra: null, session_id: uuidOf(tenant.projectId) },
    feedback_source: { type: source ?? 'api', metadata: {} },
  };
}
