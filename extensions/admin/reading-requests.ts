import type { z } from 'zod';
import { INGESTION } from './ingestion-schemas.ts';
import type { Json } from './json-schema.ts';

/** The description of a reading request, which src/read serves on both listeners. */
export type ReadingRequest = {
  /** GET by default. */
  readonly method?: 'POST';
  /** The body of a POST, which src/read checks. */
  readonly body?: z.ZodType;
  /** Relative to `/api/v1` or to a project. */
  readonly path: string;
  /** The operation id on the ingestion listener. */
  readonly id: string;
  readonly summary: string;
  readonly answer: z.ZodType;
  /** Of the query. */
  readonly parameters: readonly Json[];
};

const PAGE = [
  query('limit', { type: 'integer', minimum: 1, maximum: 1000 }),
  query('cursor', { type: 'string' }),
];
const FILTER = ['from', 'to', 'status', 'kind', 'name', 'q'].map((name) =>
  query(name, { type: 'string' }),
);
/** The sums are over the traces that match. */
const GROUP_FILTER = ['from', 'to', 'q'].map((name) => query(name, { type: 'string' }));

/** Every observation without payloads, in one answer without pages. */
const TREE = query('fields', { type: 'string', enum: ['tree'] });

export const READING_REQUESTS: readonly ReadingRequest[] = [
  {
    path: '/traces',
    id: 'listTraces',
    summary: 'List traces, newest first',
    answer: INGESTION.traces,
    parameters: [...PAGE, ...FILTER],
  },
  {
    path: '/traces/:trace_id',
    id: 'getTrace',
    summary: 'Get a trace and its observations',
    answer: INGESTION.traceDetail,
    parameters: [...PAGE, query('payloads', { type: 'boolean' }), TREE],
  },
  {
    path: '/traces/:trace_id/scores',
    id: 'listScores',
    summary: 'List the scores of a trace and of its observations',
    answer: INGESTION.scores,
    parameters: [],
  },
  {
    method: 'POST',
    path: '/traces/:trace_id/scores',
    id: 'createScore',
    summary: 'Score a trace or one of its observations',
    body: INGESTION.newScore,
    answer: INGESTION.score,
    parameters: [],
  },
  {
    path: '/sessions',
    id: 'listSessions',
    summary: 'List sessions, the one with the newest trace first',
    answer: INGESTION.sessions,
    parameters: [...PAGE, ...GROUP_FILTER],
  },
  {
    path: '/sessions/:session_id',
    id: 'getSession',
    summary: "Get a session and its traces, oldest first, with their roots' inputs and outputs",
    answer: INGESTION.sessionDetail,
    parameters: PAGE,
  },
  {
    path: '/users',
    id: 'listUsers',
    summary: 'List users, the one with the newest trace first',
    answer: INGESTION.users,
    parameters: [...PAGE, ...GROUP_FILTER],
  },
  {
    path: '/users/:user_id',
    id: 'getUser',
    summary: 'Get a user',
    answer: INGESTION.userDetail,
    parameters: [],
  },
  {
    path: '/observations/:id',
    id: 'getObservation',
    summary: 'Get an observation with its payloads',
    answer: INGESTION.observation,
    parameters: [query('trace_id', { type: 'string' })],
  },
  {
    path: '/raw-events/:raw_event_id',
    id: 'getRawEvent',
    summary: 'Get an event as it was accepted',
    answer: INGESTION.rawEvent,
    parameters: [],
  },
];

function query(name: string, schema: Json): Json {
  return { name, in: 'query', required: false, schema };
}
