import type { z } from 'zod';
import { RANK_FIELDS } from '../../src/store/ranking.ts';
import { GROUP_FIELDS } from '../../src/store/rollups/fields.ts';
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
  /** Media types of an answer that is not JSON. */
  readonly media?: readonly string[];
  /** Of the query. */
  readonly parameters: readonly Json[];
};

/** The meaning of the parameters that several requests have. */
const MEANINGS: Readonly<Record<string, string>> = {
  q: 'A query: terms such as `status:error latency:>2s`, or words. All of them must match.',
  from: 'ISO 8601 time; the first start of a trace, inclusive.',
  to: 'ISO 8601 time; the last start of a trace, exclusive.',
  status: 'As the term `status:` of a query.',
  kind: 'As the term `kind:` of a query.',
  name: 'As the term `name:` of a query.',
  limit: 'The most items of the page.',
  cursor: 'The `next_cursor` of the page before. It is one of this list, query and project.',
  payloads: 'With the inputs, outputs, events and metadata of each observation.',
  trace_id: 'The trace of the observation; without it the newest one with the id.',
  fields: '`tree`: every observation of the trace in one answer, without payloads and pages.',
  sort: 'The value that orders the traces. Other values than `start` cover the last 24 hours, or the range that is asked for.',
  wait: 'A time such as `5s`, 30 s at most: waits until what was sent before is stored and the trace is there, else 404.',
  step: 'The length of a point. Without `from`, a range covers an hour by `5m`, 24 hours by `1h`, and 30 days by `1d`. `5m` covers at most 24 hours.',
  group_by: 'A group for each value of the field. Without it, there is one group.',
  metric:
    'Values of a point, with commas between: `traces`, `observations`, `errors`, `tokens`, `cost`, `p50`, `p95`, `p99`. All by default.',
  prefix: 'Only values that begin with it.',
  left: 'With the ids of traces that change and do not match, or are erased.',
  order: 'The largest or newest first, or the smallest or oldest.',
};

const PAGE = [
  query('limit', { type: 'integer', minimum: 1, maximum: 1000 }),
  query('cursor', { type: 'string' }),
];
const FILTER = ['from', 'to', 'status', 'kind', 'name', 'q'].map((name) =>
  query(name, { type: 'string' }),
);
const ORDER = [
  query('sort', { type: 'string', enum: ['start', ...RANK_FIELDS] }),
  query('order', { type: 'string', enum: ['desc', 'asc'] }),
];
const FACET_FIELD =
  'A field of the query language whose values are texts, but `id`, or `custom.KEY`. The values of `state`, `source`, `release`, `tag`, `custom.KEY`, `span`, `provider`, `prompt` and `error` are counted in the traces of the range, within the budget of a page; those of the others are sums.';
const RANGE = ['from', 'to'].map((name) => query(name, { type: 'string' }));
/** The sums are over the traces that match. */
const GROUP_FILTER = [...RANGE, query('q', { type: 'string' })];
const STATS_QUERY =
  'A query, as in lists. With one value of `model`, `kind` or `tool` as its only term, the numbers are those of the observations with the value, as in a group of `group_by`. With any other query they are those of the whole traces that match.';
const THIRTY_DAYS = 'By default 30 days before `to`.';
const HOURS =
  'Without `q`, the fields that are sums are counted by whole hours; `from` and `to` of the answer name them.';

const EXPORT = [
  ...['q', 'from', 'to'].map((name) => query(name, { type: 'string' })),
  described('format', { enum: ['jsonl', 'csv', 'parquet', 'otlp'], default: 'jsonl' }, 'The form.'),
  described(
    'of',
    { enum: ['traces', 'observations'], default: 'traces' },
    'The kind of a row; always `observations` with `format=otlp`.',
  ),
  described(
    'payloads',
    { enum: ['false', 'true', 'text'], default: 'false' },
    'Inputs, outputs, events and metadata of observations; `text` has the JSON of each in a string, as it was sent. Always `true` with `format=otlp`.',
  ),
  described(
    'fields',
    { type: 'string' },
    'Members of a row, or columns, with commas between; those that name a row are always there.',
  ),
  described(
    'after',
    { type: 'string' },
    'Where to go on: the trailer `Tracectl-Export-Next` of an answer, or the last complete row, as a JSON object with `id` and, for observations, `trace_id`.',
  ),
  described('limit', { type: 'integer', minimum: 1 }, 'The most rows.'),
  described(
    'max_bytes',
    { type: 'integer', minimum: 1 },
    'Bytes after which the answer ends behind a row.',
  ),
];
/** Every observation without payloads, in one answer without pages. */
const TREE = query('fields', { type: 'string', enum: ['tree'] });

const WAIT = query('wait', { type: 'string', examples: ['5s'] });

export const READING_REQUESTS: readonly ReadingRequest[] = [
  {
    path: '/traces',
    id: 'listTraces',
    summary: 'List traces, newest first or by a value',
    answer: INGESTION.traces,
    parameters: [...PAGE, ...FILTER, ...ORDER],
  },
  {
    path: '/traces/stream',
    id: 'getTraceStream',
    summary: 'Follow the traces that are new or change, and match',
    answer: INGESTION.traceEvents,
    media: ['text/event-stream'],
    parameters: [query('q', { type: 'string' }), query('left', { type: 'boolean' })],
  },
  {
    path: '/traces/:trace_id',
    id: 'getTrace',
    summary: 'Get a trace and its observations',
    answer: INGESTION.traceDetail,
    parameters: [...PAGE, query('payloads', { type: 'boolean' }), TREE, WAIT],
  },
  {
    path: '/traces/:trace_id/otlp',
    id: 'getTraceOtlp',
    summary: 'Get a trace as an ExportTraceServiceRequest, in the form that `Accept` names',
    answer: INGESTION.traceRequest,
    media: ['application/json', 'application/x-protobuf'],
    parameters: [],
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
    answer: INGESTION.writtenScore,
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
    summary:
      'Get a session and its traces, oldest first, with the inputs, outputs and errors of their roots',
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
    path: '/stats',
    id: 'getStats',
    summary: 'Get numbers of traces by time',
    answer: INGESTION.stats,
    parameters: [
      ...RANGE,
      described('q', { type: 'string' }, STATS_QUERY),
      query('step', { type: 'string', enum: ['5m', '1h', '1d'], default: '1h' }),
      query('group_by', { type: 'string', enum: GROUP_FIELDS }),
      query('metric', { type: 'string' }),
      described(
        'limit',
        { type: 'integer', minimum: 1, maximum: 100 },
        'The most groups, 20 by default.',
      ),
    ],
  },
  {
    path: '/facets',
    id: 'getFacet',
    summary: 'Get the values of a field, the most used first',
    answer: INGESTION.facet,
    parameters: [
      {
        ...described('field', { type: 'string' }, FACET_FIELD),
        required: true,
      },
      query('prefix', { type: 'string' }),
      described('from', { type: 'string' }, `${MEANINGS['from']} ${THIRTY_DAYS} ${HOURS}`),
      described('to', { type: 'string' }, `${MEANINGS['to']} ${HOURS}`),
      query('q', { type: 'string' }),
      described('limit', { type: 'integer', minimum: 1, maximum: 1000 }, 'The most values.'),
    ],
  },
  {
    path: '/search',
    id: 'getSearch',
    summary: 'Get how far text search covers payloads',
    answer: INGESTION.searchStatus,
    parameters: [],
  },
  {
    path: '/observations/:id',
    id: 'getObservation',
    summary: 'Get an observation with its payloads',
    answer: INGESTION.observationDetail,
    parameters: [query('trace_id', { type: 'string' })],
  },
  {
    path: '/attachments/:sha256',
    id: 'getAttachment',
    summary: 'Get the bytes of an attachment that an observation refers to',
    answer: INGESTION.attachmentContent,
    media: [
      ...['application/octet-stream', 'application/pdf', 'image/png', 'image/jpeg', 'image/gif'],
      ...['image/webp', 'audio/*', 'video/*', 'text/plain'],
    ],
    parameters: [],
  },
  {
    path: '/raw-events/:raw_event_id',
    id: 'getRawEvent',
    summary: 'Get an event as it was accepted',
    answer: INGESTION.rawEvent,
    parameters: [],
  },
  {
    path: '/export',
    id: 'exportRows',
    summary: 'Export traces or observations that match a query, newest first',
    answer: INGESTION.exported,
    media: ['application/x-ndjson', 'text/csv', 'application/vnd.apache.parquet'],
    parameters: EXPORT,
  },
];

/** The codes of mistakes that only requests with some parameters can have. */
export function parameterCodes(
  parameters: readonly Json[],
): ('invalid_query' | 'invalid_cursor')[] {
  const names = parameters.map(({ name }) => name);
  return [
    ...(names.includes('q') ? (['invalid_query'] as const) : []),
    ...(names.includes('cursor') || names.includes('after') ? (['invalid_cursor'] as const) : []),
  ];
}

function described(name: string, schema: Json, description: string): Json {
  return { name, in: 'query', required: false, description, schema };
}

function query(name: string, schema: Json): Json {
  const description = MEANINGS[name];
  return description === undefined
    ? { name, in: 'query', required: false, schema }
    : described(name, schema, description);
}
