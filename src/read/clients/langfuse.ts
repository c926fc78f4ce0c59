import { answer } from '../../http/exchange.ts';
import { Refusal } from '../../model/errors.ts';
import type { Score } from '../../store/scores.ts';
import { answerJson } from '../answer.ts';
import { jsonBody } from '../json-body.ts';
import { newScore } from '../new-score.ts';
import type { TraceScore } from '../store-scores.ts';
import { checkCount, storeScore, storeScores } from '../store-scores.ts';
import type { AdmittedRead, StoreReading } from '../stored-request.ts';
import { unknown } from '../stored-request.ts';
import type { ClientRequest } from './client-request.ts';
import type { Members } from './members.ts';
import { objectOf, textIn } from './members.ts';

/** The largest batch that Langfuse's clients make of scores is 1 MB. */
const MAX_BODY_BYTES = 1_048_576;

/** The requests of Langfuse's clients beside OTLP: scores. */
export const LANGFUSE_REQUESTS: readonly ClientRequest[] = [
  {
    method: 'POST',
    paths: ['/api/public/scores'],
    permissions: ['ingest:write'],
    work: createScores,
  },
  {
    method: 'DELETE',
    paths: ['/api/public/scores/:id'],
    permissions: ['ingest:write'],
    work: deleteScore,
  },
  {
    method: 'POST',
    paths: ['/api/public/ingestion'],
    permissions: ['ingest:write'],
    work: ingestEvents,
  },
];

/** The project of the key, which `auth_check` of the clients asks for. */
export async function langfuseProjects({ exchange, tenant, store, read }: AdmittedRead) {
  const project =
    store === undefined ? undefined : await read.turn(() => store.projects.get(tenant.projectId));
  const organization =
    store === undefined ? undefined : await read.turn(() => store.organization.get());
  const { organizationId } = tenant;
  const shown = {
    id: tenant.projectId,
    name: project?.name ?? tenant.projectId,
    organization: { id: organizationId, name: organization?.name ?? organizationId },
    metadata: {},
    ...(project === undefined ? {} : { retentionDays: project.retention.days }),
  };
  answerJson(exchange, read, JSON.stringify({ data: [shown] }));
}

/** One score, as the JS client sends it, or a list, as the Python client does. */
async function createScores(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const body = await jsonBody(exchange, read, MAX_BODY_BYTES);
  const now = exchange.clock.now();
  if (!Array.isArray(body)) {
    const stored = await storeScore(reading, scoreOf(body, now));
    if (stored instanceof Refusal) throw stored;
    answerWith(reading, 200, { id: stored.id });
    return;
  }
  checkCount(body.length);
  const outcomes = await storeScores(
    reading,
    body.map((one: unknown) => refusable(() => scoreOf(one, now))),
  );
  const refused = outcomes.filter((one) => one instanceof Refusal);
  if (refused.length === 0) {
    answerWith(reading, 202, { message: 'Accepted' });
    return;
  }
  answerWith(reading, 207, {
    accepted: outcomes.length - refused.length,
    rejected: refused.length,
    errors: refused.map(({ message }) => ({ message })),
  });
}

async function deleteScore(reading: StoreReading): Promise<void> {
  const { exchange, store, tenant } = reading;
  const isRemoved = await store.scores.remove(tenant.projectId, exchange.params.id ?? '');
  if (!isRemoved) throw unknown('score');
  answerWith(reading, 202, { message: 'The score is deleted.' });
}

/** The batch of events of Langfuse before OTLP, of which the current JS client still sends scores. */
async function ingestEvents(reading: StoreReading): Promise<void> {
  const { exchange, read } = reading;
  const { batch } = objectOf(await jsonBody(exchange, read, MAX_BODY_BYTES), 'The body');
  if (!Array.isArray(batch)) throw new Refusal('invalid_request', 'body.batch must be an array.');
  checkCount(batch.length);
  const now = exchange.clock.now();
  const events = batch.map((event: unknown) => objectOf(event, 'An event'));
  const outcomes = await storeScores(
    reading,
    events.map((event) => refusable(() => scoreOfEvent(event, now))),
  );
  const ids = events.map((event) => textIn(event, 'id') ?? '');
  const entries = outcomes.map((outcome, i) => entryOf(ids[i] ?? '', outcome));
  answerWith(reading, 207, {
    successes: entries.filter(({ status }) => status === 201),
    errors: entries.filter(({ status }) => status !== 201),
  });
}

function entryOf(id: string, outcome: Score | Refusal) {
  if (!(outcome instanceof Refusal)) return { id, status: 201 };
  const { status, message } = outcome;
  return { id, status, message, error: message };
}

function scoreOfEvent(event: Members, now: number): TraceScore {
  if (event.type === 'score-create') return scoreOf(event.body, now);
  throw new Refusal(
    'invalid_request',
    'Only events of the type score-create are served here. Traces and observations are accepted as OTLP at ' +
      '/api/public/otel/v1/traces: use a Langfuse client that sends OTLP (Python from 3, JS from 4).',
  );
}

/** Langfuse names an observation by its span id; here the id of a span begins with that of its trace. */
function scoreOf(body: unknown, now: number): TraceScore {
  const given = objectOf(body, 'The score');
  const traceId = textIn(given, 'traceId');
  if (traceId === undefined) {
    const other = ['sessionId', 'datasetRunId'].find((name) => textIn(given, name) !== undefined);
    const but = other === undefined ? '' : `; scores with ${other} are not served`;
    throw new Refusal('invalid_request', `The score needs traceId${but}.`);
  }
  const { id, name, comment, source } = given;
  const observation = observationOf(traceId, given.observationId);
  const value = given.dataType === 'BOOLEAN' ? booleanOf(given.value) : given.value;
  const score = newScore({ id, name, value, comment, source, observation_id: observation }, now);
  return { traceId, score };
}

const SPAN_ID = /^[0-9a-f]{16}$/;
const TRACE_ID = /^[0-9a-f]{32}$/;

function observationOf(traceId: string, id: unknown): unknown {
  const isSpan = typeof id === 'string' && SPAN_ID.test(id) && TRACE_ID.test(traceId);
  return isSpan ? `${traceId}:${id}` : id;
}

function booleanOf(value: unknown): unknown {
  if (value === 1) return true;
  return value === 0 ? false : value;
}

function refusable(make: () => TraceScore): TraceScore | Refusal {
  try {
    return make();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

function answerWith({ exchange }: StoreReading, status: number, body: object): void {
  answer(exchange, { status, contentType: 'application/json', body: JSON.stringify(body) });
}
