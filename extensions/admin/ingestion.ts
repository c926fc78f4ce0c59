import type { z } from 'zod';
import type { RefusalCode } from '../../src/model/errors.ts';
import { REFUSAL_STATUS } from '../../src/model/errors.ts';
import { INGESTION } from './ingestion-schemas.ts';
import type { Json } from './json-schema.ts';
import { contentOf, reference, refusalHeadersOf } from './json-schema.ts';
import type { ReadingRequest } from './reading-requests.ts';
import { parameterCodes, READING_REQUESTS } from './reading-requests.ts';

/** The paths of the ingestion listener, for the OpenAPI document. */
export function ingestionPaths(): Json {
  const { eventBatch, run: oneRun, runBatch } = INGESTION;
  const events = { summary: 'Send observation events', requestBody: bodyOf(eventBatch) };
  const batch = ingest('sendObservations', { ...events, codes: BATCH_CODES });
  const run = { requestBody: bodyOf(oneRun), codes: RUN_CODES };
  const create = ingest('createRun', { summary: 'Create a run', ...run });
  const idOfRun = [pathParameter('id')];
  const patch = ingest('updateRun', {
    ...{ summary: 'Update a run', ...run, parameters: idOfRun },
    // An id that is too long, or empty.
    codes: [...RUN_CODES, 'not_found'],
  });
  const summary = 'Create and update runs';
  const runs = ingest('sendRuns', {
    ...{ summary, requestBody: bodyOf(runBatch), codes: BATCH_CODES },
  });
  const parts = ingest('sendRunParts', {
    ...{ summary: `${summary} in parts`, requestBody: PARTS, codes: BATCH_CODES },
  });
  return {
    '/api/v1/observations/batch': item({ post: batch }),
    '/api/v1/runs': item({ post: create }),
    '/api/v1/runs/{id}': item({ patch }),
    '/api/v1/runs/batch': item({ post: runs }),
    '/api/v1/runs/multipart': item({ post: parts }),
    '/api/v1/info': item({ get: info() }),
    '/api/public/otel/v1/traces': item({ post: exportTraces('exportTraces') }),
    '/v1/traces': item({ post: exportTraces('exportTracesOfCollector') }),
    '/v1/logs': item({ post: exportLogs() }),
    '/api/v1/otel/v1/traces': item({ post: exportTraces('exportTracesOfLangSmith') }),
    ...readingPaths(),
  };
}

function readingPaths(): Json {
  const paths: Json = {};
  for (const request of READING_REQUESTS) {
    const { path, method = 'GET', parameters } = request;
    const names = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => pathParameter(name));
    const place = `/api/v1${path.replaceAll(/:(\w+)/g, '{$1}')}`;
    const described = read(request, [...names, ...parameters]);
    paths[place] = { ...(paths[place] ?? item({})), [method.toLowerCase()]: described };
  }
  const aboutMe = { id: 'getMe', summary: 'Get the project and key of the credential' };
  const me = read({ ...aboutMe, answer: INGESTION.me }, []);
  return { ...paths, '/api/v1/me': item({ get: me }) };
}

function item(operations: Json): Json {
  const description = 'The ingestion listener';
  const variables = { base_url: { default: 'http://127.0.0.1:4318', description } };
  return { servers: [{ url: '{base_url}', description, variables }], ...operations };
}

const SECURITY = [{ project_key: [] }, { project_key_header: [] }];

/** The codes that refuse a request with one run. */
const RUN_CODES: readonly RefusalCode[] = [
  ...(['invalid_json', 'invalid_request', 'unsupported_content_type'] as const),
  ...(['no_event_accepted', 'unauthorized', 'monthly_limit', 'forbidden'] as const),
  ...(['request_timeout', 'idempotency_conflict', 'idempotency_in_progress'] as const),
  ...(['body_too_large', 'exceeds_hourly_limit', 'unsupported_encoding'] as const),
  ...(['hourly_limit', 'rate_limited', 'unavailable'] as const),
];
const BATCH_CODES: readonly RefusalCode[] = [...RUN_CODES, 'too_many_events'];
/** If all items of a request of OTLP are rejected, its answer is a partial success. */
const OTLP_CODES = BATCH_CODES.filter((code) => code !== 'no_event_accepted');
/** The codes of a reading request with a body. */
const BODY_CODES: readonly RefusalCode[] = [
  ...(['invalid_json', 'unsupported_content_type', 'request_timeout'] as const),
  ...(['too_many_scores', 'body_too_large', 'unsupported_encoding'] as const),
];

/** `post.ID`, `patch.ID` and their fields: the names are those of the runs. */
const PARTS = {
  required: true,
  content: {
    'multipart/form-data': { schema: { type: 'object', additionalProperties: { type: 'string' } } },
  },
};

type Ingest = {
  readonly summary: string;
  readonly requestBody: Json;
  readonly codes: readonly RefusalCode[];
  /** Beside those that every ingestion request takes. */
  readonly parameters?: readonly Json[];
};

function ingest(id: string, { summary, requestBody, codes, parameters = [] }: Ingest): Json {
  const accepted = {
    description: 'At least one item is accepted and durable; `results` has every item.',
    content: json(INGESTION.envelope),
  };
  return {
    operationId: id,
    tags: ['ingestion'],
    summary,
    security: SECURITY,
    parameters: [...parameters, IDEMPOTENCY_KEY, CONTENT_ENCODING],
    requestBody,
    responses: { 202: accepted, ...refusalsOf(codes, json(INGESTION.envelope)) },
  };
}

function bodyOf(schema: z.ZodType): Json {
  return { required: true, content: json(schema) };
}

function exportTraces(id: string): Json {
  return exportSignal(id, 'spans', INGESTION.otlpRequest, INGESTION.otlpResponse);
}

/** Events of LLM calls become observations; other records are rejected. */
function exportLogs(): Json {
  const { otlpLogsRequest, otlpLogsResponse } = INGESTION;
  return exportSignal('exportLogs', 'log records', otlpLogsRequest, otlpLogsResponse);
}

function exportSignal(id: string, items: string, request: z.ZodType, response: z.ZodType): Json {
  const protobuf = { 'application/x-protobuf': { schema: { type: 'string', format: 'binary' } } };
  const done = {
    description: `All ${items} are accepted, or some are rejected (partialSuccess).`,
    content: { ...json(response), ...protobuf },
  };
  const refusals = refusalsOf(
    OTLP_CODES,
    { ...json(INGESTION.rpcStatus), ...protobuf },
    { ...REFUSAL_STATUS, unsupported_content_type: 415 },
  );
  return {
    operationId: id,
    tags: ['ingestion'],
    summary: `Export ${items} (OTLP/HTTP)`,
    security: SECURITY,
    parameters: [IDEMPOTENCY_KEY, CONTENT_ENCODING],
    requestBody: { required: true, content: { ...json(request), ...protobuf } },
    responses: { 200: done, ...refusals },
  };
}

function read(
  { method, id, summary, answer, media, body }: Omit<ReadingRequest, 'path' | 'parameters'>,
  parameters: readonly Json[],
): Json {
  const isPost = method === 'POST';
  const codes: readonly RefusalCode[] = [
    ...['invalid_request' as const, ...parameterCodes(parameters), ...(isPost ? BODY_CODES : [])],
    ...(['unauthorized', 'forbidden', 'not_found', 'rate_limited'] as const),
    ...(['unavailable', 'query_timeout'] as const),
  ];
  return {
    operationId: id,
    tags: ['reading'],
    summary,
    security: SECURITY,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: bodyOf(body) }),
    responses: {
      [isPost ? 201 : 200]: {
        description: isPost ? 'Stored' : 'Done',
        content: contentOf(answer, media),
      },
      ...refusalsOf(codes, json(INGESTION.envelope)),
    },
  };
}

function info(): Json {
  return {
    operationId: 'getInfo',
    tags: ['ingestion'],
    summary: 'Get the capabilities that LangSmith’s clients read before they send',
    security: [],
    responses: { 200: { description: 'Done', content: json(INGESTION.info) } },
  };
}

/** A response for each status of the codes, which describe it. */
function refusalsOf(
  codes: readonly RefusalCode[],
  content: Json,
  statuses: Readonly<Record<RefusalCode, number>> = REFUSAL_STATUS,
): Json {
  const byStatus = Object.groupBy(codes, (code) => statuses[code]);
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, these = []]) => [
      status,
      {
        description: these.map((code) => `\`${code}\``).join(', '),
        ...refusalHeadersOf(these),
        content,
      },
    ]),
  );
}

function json(schema: z.ZodType): Json {
  return { 'application/json': { schema: reference(schema) } };
}

function pathParameter(name: string): Json {
  return { name, in: 'path', required: true, schema: { type: 'string' } };
}

const IDEMPOTENCY_KEY: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'A repeated request with the same key and body gets the first answer for 24 hours.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
};
const CONTENT_ENCODING: Json = {
  name: 'Content-Encoding',
  in: 'header',
  required: false,
  description: 'gzip or deflate; the native and run endpoints accept zstd too.',
  schema: { type: 'string' },
};
