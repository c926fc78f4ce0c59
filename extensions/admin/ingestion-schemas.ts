import { z } from 'zod';
import { REFUSAL_STATUS } from '../../src/model/errors.ts';
import {
  OBSERVATION_KINDS,
  OBSERVATION_OPERATIONS,
  OBSERVATION_STATUSES,
} from '../../src/model/observation.ts';
import { SCORE_BYTES } from '../../src/read/new-score.ts';

/**
 * The shapes of the ingestion listener, only for the OpenAPI document: its receivers scan bytes and do not use
 * these schemas. A test holds the answers to them.
 */

const sentTime = z.string().describe('ISO 8601; without an offset it is read as UTC.');
/** Of an answer. */
const time = z.string().describe('ISO 8601 in UTC.');
const payload = z.unknown().describe('Any JSON, up to 4 MiB as compact JSON.');
const kind = z.enum(OBSERVATION_KINDS);
const status = z.enum(OBSERVATION_STATUSES);
const state = z.enum(['running', 'finished', 'error', 'interrupted']);
const counted = z
  .boolean()
  .describe('Its own usage is in the totals of the trace; without usage, its own cost is.');
const cost_counted = z.boolean().describe('Its own cost is in the totals of the trace.');
const cycle = z.boolean().describe('A cycle of parents is broken here; it counts as a root.');
const version = z
  .union([z.int().nonnegative(), z.string().regex(/^\d+$/)])
  .describe('0 to 18446744073709551615; the higher version wins.');
const tokenUsage = z
  .looseObject({
    input_tokens: z.int().optional(),
    output_tokens: z.int().optional(),
    total_tokens: z.int().optional(),
  })
  .describe('Token counts by kind, such as `cached_tokens`; the page Conventions lists the kinds.');
const customFields = z
  .record(z.string(), z.unknown())
  .nullable()
  .describe('Scalars become strings; nested values are ignored.');

const payloads = {
  inputs: payload.optional(),
  outputs: payload.optional(),
  events: payload.optional(),
  metadata: payload.optional(),
  context_metadata: payload.optional(),
};

const event = z
  .looseObject({
    observation_id: z.string().optional().describe('Required without `id`.'),
    id: z.string().optional(),
    trace_id: z.string(),
    operation: z.enum(OBSERVATION_OPERATIONS),
    kind: kind.optional().describe('Alternative to `run_type`.'),
    run_type: kind.optional(),
    status,
    name: z.string().nullish(),
    parent_id: z.string().nullish(),
    start_time: sentTime.nullish(),
    end_time: sentTime.nullish(),
    event_version: version.nullish(),
    model: z.string().nullish(),
    usage: tokenUsage.nullish(),
    custom_fields: customFields.optional(),
    ...payloads,
  })
  .meta({ id: 'ObservationEvent' });
const eventBatch = z
  .looseObject({ events: z.array(event).min(1).max(1000) })
  .meta({ id: 'ObservationBatch' });

const run = z
  .looseObject({
    id: z
      .string()
      .optional()
      .describe('Required without `observation_id`; a patch has it in the path.'),
    observation_id: z.string().optional(),
    trace_id: z.string().nullish(),
    name: z.string().nullish(),
    run_type: z.string().nullish(),
    start_time: z
      .union([z.string(), z.number()])
      .nullish()
      .describe(
        'ISO 8601, also with a space in place of the `T`, or a number of seconds or milliseconds since the epoch.',
      ),
    end_time: z.union([z.string(), z.number()]).nullish(),
    parent_run_id: z.string().nullish(),
    inputs: payload.optional(),
    outputs: payload.optional(),
    error: z.string().nullish(),
    tags: z.array(z.string()).nullish(),
    reference_example_id: z.string().nullish().describe('Read as `external.reference_example_id`.'),
    extra: z.looseObject({ metadata: payload.optional() }).nullish(),
  })
  .meta({ id: 'Run' });
const runBatch = z
  .looseObject({ post: z.array(run).optional(), patch: z.array(run).optional() })
  .meta({ id: 'RunBatch' });

const itemResult = z
  .strictObject({
    index: z.int().nonnegative(),
    id: z.string().optional(),
    status: z.enum(['queued', 'rejected']),
    raw_event_id: z.string().optional(),
    code: z
      .enum([
        ...(['invalid_event', 'missing_field', 'invalid_field'] as const),
        ...(['invalid_custom_fields', 'payload_too_large'] as const),
      ])
      .optional(),
    reason: z.string().optional(),
  })
  .meta({ id: 'ItemResult' });
const envelope = z
  .strictObject({
    status: z.enum(['queued', 'rejected']),
    accepted: z.int().nonnegative(),
    rejected: z.int().nonnegative(),
    results: z.array(itemResult),
    code: z.enum(Object.keys(REFUSAL_STATUS) as [string, ...string[]]).optional(),
    message: z.string().optional(),
    hourly_ingest_reset_at: z.iso.datetime().optional().describe('Only with `hourly_limit`.'),
    position: z
      .int()
      .nonnegative()
      .optional()
      .describe('Only with `invalid_query`: the index of the character at fault.'),
  })
  .meta({ id: 'Envelope' });

const otlpRequest = z
  .looseObject({ resourceSpans: z.array(z.looseObject({})).optional() })
  .meta({ id: 'ExportTraceServiceRequest' });
const otlpResponse = z
  .strictObject({
    partialSuccess: z
      .strictObject({
        rejectedSpans: z.union([z.string(), z.int()]),
        errorMessage: z.string(),
      })
      .optional(),
  })
  .meta({ id: 'ExportTraceServiceResponse' });
const otlpLogsRequest = z
  .looseObject({ resourceLogs: z.array(z.looseObject({})).optional() })
  .meta({ id: 'ExportLogsServiceRequest' });
const otlpLogsResponse = z
  .strictObject({
    partialSuccess: z
      .strictObject({
        rejectedLogRecords: z.union([z.string(), z.int()]),
        errorMessage: z.string(),
      })
      .optional(),
  })
  .meta({ id: 'ExportLogsServiceResponse' });
const rpcStatus = z.strictObject({ code: z.int(), message: z.string() }).meta({ id: 'RpcStatus' });

const info = z.looseObject({ batch_ingest_config: z.looseObject({}) }).meta({ id: 'Info' });

const nextCursor = z
  .string()
  .nullable()
  .describe(
    'Null at the end. A page may hold fewer items than `limit`, even none, and have a next page.',
  );
const money = z
  .strictObject({
    input: z.number().nullable(),
    output: z.number().nullable(),
    total: z.number().nullable(),
    currency: z.literal('USD'),
  })
  .meta({ id: 'Cost' });
const source = z.enum(['native', 'runs', 'otlp']);
/** The reading answers get further fields in later versions, so their schemas are open. */
const trace = z
  .looseObject({
    id: z.string(),
    name: z.string().nullable(),
    status: status.nullable(),
    state,
    start_time: time.nullable(),
    end_time: time.nullable(),
    latency_ms: z.number().nullable(),
    ttft_ms: z.number().nullable(),
    observation_count: z.int(),
    error_count: z.int(),
    models: z.array(z.string()),
    session_id: z.string().nullable(),
    user_id: z.string().nullable(),
    key_id: z.string().nullable(),
    source,
    environment: z.string().nullable(),
    release: z.string().nullable(),
    tags: z.array(z.string()),
    custom_fields: z.record(z.string(), z.string()),
    usage: tokenUsage.nullable(),
    cost: money.nullable().describe('Each call counts once.'),
    scores: z
      .record(z.string(), z.union([z.number(), z.boolean(), z.string()]))
      .describe(
        'The newest value of each name; a score of the trace comes before those of observations.',
      ),
    input_preview: z
      .string()
      .nullable()
      .describe('The beginning of the inputs of the root observation, as text.'),
    output_preview: z.string().nullable(),
    clock_skew: z.boolean(),
  })
  .meta({ id: 'Trace' });
const traces = z
  .looseObject({
    traces: z.array(trace),
    next_cursor: nextCursor,
    searched_to: time
      .nullable()
      .describe('With `partial`: the time down to which every trace was looked at.'),
    partial: z.boolean().describe('The page ended early, because the search takes long.'),
  })
  .meta({ id: 'Traces' });
const attachment = z
  .strictObject({
    name: z.string(),
    mime_type: z.string().describe('As it was sent, without parameters.'),
    bytes: z.int(),
    sha256: z.string(),
    url: z.string(),
  })
  .meta({ id: 'Attachment' });
const observation = z
  .looseObject({
    id: z.string(),
    trace_id: z.string().nullable(),
    parent_id: z.string().nullable(),
    name: z.string().nullable(),
    kind: kind.nullable(),
    status: status.nullable(),
    state,
    start_time: time.nullable(),
    end_time: time.nullable(),
    latency_ms: z.number().nullable(),
    custom_fields: z.record(z.string(), z.string()),
    usage: tokenUsage.nullable(),
    model: z.string().nullable(),
    error: z
      .strictObject({
        message: z.string().nullable(),
        type: z.string().nullable(),
        stacktrace: z.string().nullable(),
      })
      .nullable(),
    event_version: z.string(),
    ended: z.boolean(),
    session_id: z.string().nullable(),
    user_id: z.string().nullable(),
    external: z.record(z.string(), z.string()).nullable(),
    provider: z.string().nullable(),
    environment: z.string().nullable(),
    release: z.string().nullable(),
    tags: z.array(z.string()),
    prompt: z
      .strictObject({ name: z.string().nullable(), version: z.string().nullable() })
      .nullable(),
    tool: z.string().nullable(),
    ttft_ms: z.number().nullable(),
    cost: money.nullable(),
    cost_source: z.enum(['sent', 'computed']).nullable(),
    ignored: z
      .array(z.object({ path: z.string(), reason: z.string() }))
      .describe('Malformed values that gave no field, at most 16. The raw event has them.'),
    attachments: z
      .array(attachment)
      .describe(
        'Files that were sent with the run. Their bytes are at `url` of the ingestion API.',
      ),
    source,
    project_id: z.string(),
    created_at: time,
    updated_at: time,
    ...payloads,
  })
  .meta({ id: 'Observation' });
const attachmentContent = z
  .string()
  .describe('The bytes, under their own type if a browser runs no scripts of it.')
  .meta({ id: 'AttachmentContent' });
const observationDetail = observation
  .extend({
    raw_event_ids: z
      .array(z.string())
      .describe(
        'The events that it has its fields from, as `/raw-events/{raw_event_id}` has them.',
      ),
  })
  .meta({ id: 'ObservationDetail' });
const traceEvents = z
  .string()
  .describe(
    '`event: trace` with a list item, `event: lagged` with `{"missed": n}`, and with `left=true` also `event: left` with `{"ids": [...]}`.',
  )
  .meta({ id: 'TraceEvents' });

const traceRequest = z
  .looseObject({ resourceSpans: z.array(z.looseObject({})) })
  .describe('Spans have the bytes that the client sent; other observations are encoded as spans.')
  .meta({ id: 'TraceRequest' });

/** An error without its stack trace. */
const shortError = z.strictObject({
  type: z.string().nullable(),
  message: z.string().nullable(),
});
/** An observation in `fields=tree`. */
const treeNode = z
  .looseObject({
    ...observation.pick({
      ...{ id: true, parent_id: true, name: true, kind: true, status: true, state: true },
      ...{ start_time: true, end_time: true, latency_ms: true, ttft_ms: true, model: true },
      ...{ provider: true, usage: true, cost: true, cost_source: true, updated_at: true },
    }).shape,
    counted,
    cost_counted,
    cycle,
    input_bytes: z.int().nullable(),
    output_bytes: z.int().nullable(),
    error: shortError.nullable(),
  })
  .meta({ id: 'TreeObservation' });
const traceDetail = z
  .union([
    z.looseObject({
      trace,
      observations: z.array(z.looseObject({ ...observation.shape, counted, cost_counted, cycle })),
      next_cursor: nextCursor,
    }),
    z.strictObject({ trace, observations: z.array(treeNode) }).describe('With `fields=tree`.'),
  ])
  .meta({ id: 'TraceDetail' });
/** The sums of a session or a user. */
const sums = {
  first_time: time.nullable().describe('The earliest start of a trace.'),
  last_time: time.nullable().describe('The latest end of a trace, or its start without an end.'),
  traces: z.int(),
  observations: z.int(),
  errors: z.int().describe('Failed observations.'),
  usage: tokenUsage.nullable(),
  cost: money.nullable(),
  partial: z.boolean().describe('The sums are over the newest traces only: there are too many.'),
};
const session = z
  .looseObject({ id: z.string(), user_id: z.string().nullable(), ...sums })
  .meta({ id: 'Session' });
const user = z.looseObject({ id: z.string(), sessions: z.int(), ...sums }).meta({ id: 'User' });
const pageEnd = {
  next_cursor: nextCursor,
  searched_to: time.nullable(),
  partial: z.boolean().describe('The page ended early, because the search takes long.'),
};
const sessions = z.looseObject({ sessions: z.array(session), ...pageEnd }).meta({ id: 'Sessions' });
const users = z.looseObject({ users: z.array(user), ...pageEnd }).meta({ id: 'Users' });
/** The end of an answer whose sums may be over the newest traces only. */
const sumEnd = {
  partial: z.boolean().describe('The sums are over the traces down to `searched_to`.'),
  searched_to: time.nullable(),
};
const facet = z
  .looseObject({
    field: z.string(),
    from: time,
    to: time,
    values: z
      .array(z.strictObject({ value: z.string(), traces: z.int() }))
      .describe('The most used values first.'),
    others: z.int().describe('Traces whose value is counted without its text.'),
    ...sumEnd,
  })
  .meta({ id: 'Facet' });
const statsPoint = z
  .looseObject({
    time: time.describe('The beginning of the step.'),
    traces: z.int().optional(),
    observations: z.int().optional(),
    errors: z.int().optional().describe('Failed observations.'),
    input_tokens: z.number().optional(),
    output_tokens: z.number().optional(),
    cached_tokens: z.number().optional(),
    cost: z.number().optional().describe('In USD.'),
    latency_p50_ms: z.number().nullable().optional(),
    latency_p95_ms: z.number().nullable().optional(),
    latency_p99_ms: z.number().nullable().optional(),
  })
  .meta({ id: 'StatsPoint' });
const stats = z
  .looseObject({
    step: z.enum(['5m', '1h', '1d']),
    from: time,
    to: time,
    group_by: z.string().nullable(),
    groups: z.array(
      z.strictObject({
        key: z.string().nullable().describe('Null for all traces, and for values without a text.'),
        points: z
          .array(statsPoint)
          .describe('In the order of time; steps without traces have none.'),
      }),
    ),
    left_out: z.int().describe('Groups beyond the limit.'),
    ...sumEnd,
  })
  .meta({ id: 'Stats' });
const sessionTrace = trace
  .extend({
    input: z.unknown(),
    output: z.unknown(),
    error: shortError.nullable().describe('That of the root observation.'),
  })
  .meta({ id: 'SessionTrace' });
const sessionDetail = z
  .looseObject({ session, traces: z.array(sessionTrace), next_cursor: nextCursor })
  .meta({ id: 'SessionDetail' });
const userDetail = z.looseObject({ user }).meta({ id: 'UserDetail' });
const scoreValue = z.union([z.number(), z.boolean(), z.string()]);
/** src/read checks the body on both listeners, so the schema of the document accepts every value. */
const newScore = z.unknown().meta({
  id: 'NewScore',
  type: 'object',
  required: ['name', 'value'],
  additionalProperties: false,
  properties: {
    id: {
      ...{ type: ['string', 'null'], maxLength: SCORE_BYTES.id },
      description: 'A score with the same id and trace is replaced. A new one by default.',
    },
    observation_id: { type: ['string', 'null'], maxLength: SCORE_BYTES.observation_id },
    name: { type: 'string', minLength: 1, maxLength: SCORE_BYTES.name },
    value: { type: ['number', 'boolean', 'string'], maxLength: SCORE_BYTES.value },
    comment: { type: ['string', 'null'], maxLength: SCORE_BYTES.comment },
    source: { type: ['string', 'null'], maxLength: SCORE_BYTES.source },
  },
});
const score = z
  .looseObject({
    id: z.string(),
    observation_id: z.string().nullable(),
    name: z.string(),
    value: scoreValue,
    comment: z.string().nullable(),
    source: z.string().nullable(),
    created_at: time,
  })
  .meta({ id: 'Score' });
const writtenScore = score.extend({ trace_id: z.string() }).meta({ id: 'WrittenScore' });
const scores = z.looseObject({ scores: z.array(score) }).meta({ id: 'Scores' });
const rawEvent = z
  .strictObject({
    id: z.string(),
    accepted_at: time,
    source,
    key_id: z.string(),
    event: z.unknown(),
  })
  .meta({ id: 'RawEvent' });
const me = z
  .strictObject({
    project: z.strictObject({ id: z.string(), name: z.string() }),
    key: z.strictObject({
      id: z.string(),
      prefix: z.string().nullable(),
      permissions: z.array(z.enum(['ingest:write', 'traces:read'])),
    }),
  })
  .meta({ id: 'Me' });

const searchStatus = z
  .looseObject({
    state: z.enum(['off', 'indexing', 'ready']),
    payload_bytes: z
      .int()
      .nullable()
      .describe('Bytes of the text of inputs, and of outputs, that are searched.'),
    progress: z.number().describe('The part of the stored observations that is searched, 0 to 1.'),
  })
  .meta({ id: 'SearchStatus' });

const exported = z
  .string()
  .describe('Rows in the form of the parameter `format`; the trailers say where the export ended.')
  .meta({ id: 'Export' });

export const INGESTION = {
  event,
  eventBatch,
  run,
  runBatch,
  itemResult,
  envelope,
  otlpRequest,
  otlpResponse,
  otlpLogsRequest,
  otlpLogsResponse,
  rpcStatus,
  info,
  money,
  trace,
  traces,
  observation,
  observationDetail,
  treeNode,
  traceEvents,
  traceRequest,
  traceDetail,
  session,
  sessions,
  sessionTrace,
  sessionDetail,
  user,
  users,
  userDetail,
  newScore,
  score,
  writtenScore,
  scores,
  facet,
  statsPoint,
  stats,
  rawEvent,
  attachment,
  attachmentContent,
  searchStatus,
  exported,
  me,
};
