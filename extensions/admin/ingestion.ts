import type { z } from 'zod';
import { REFUSAL_STATUS } from '../../src/model/errors.ts';
import { INGESTION } from './ingestion-schemas.ts';
import type { Json } from './json-schema.ts';
import { contentOf, reference } from './json-schema.ts';
import type { ReadingRequest } from './reading-requests.ts';
import { READING_REQUESTS } from './reading-requests.ts';

/** The paths of the ingestion listener, for the OpenAPI document. */
export function ingestionPaths(): Json {
  const batch = ingest('sendObservations', 'Send observation events', INGESTION.eventBatch);
  const run = ingest('createRun', 'Create a run', INGESTION.run);
  const patch = ingest('updateRun', 'Update a run', INGESTION.run, [pathParameter('id')]);
  const runs = ingest('sendRuns', 'Create and update runs', INGESTION.runBatch);
  const parts = {
    ...ingest('sendRunParts', 'Create and update runs in parts'),
    requestBody: PARTS,
  };
  return {
    '/api/v1/observations/batch': item({ post: batch }),
    '/api/v1/runs': item({ post: run }),
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

/** The refusals of a whole ingestion request, in the envelope. */
const REFUSED = refusalsOf([400, 401, 402, 403, 408, 409, 413, 415, 429, 503], INGESTION.envelope);

/** `post.ID`, `patch.ID` and their fields: the names are those of the runs. */
const PARTS = {
  required: true,
  content: {
    'multipart/form-data': { schema: { type: 'object', additionalProperties: { type: 'string' } } },
  },
};

function ingest(id: string, summary: string, body?: z.ZodType, parameters: Json[] = []): Json {
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
    ...(body === undefined ? {} : { requestBody: { required: true, content: json(body) } }),
    responses: { 202: accepted, ...REFUSED },
  };
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
    [400, 401, 402, 403, 408, 409, 413, 415, 429, 503],
    INGESTION.rpcStatus,
    protobuf,
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
  parameters: Json[],
): Json {
  const isPost = method === 'POST';
  const statuses = [400, 401, 403, 404, ...(isPost ? [408, 409, 413, 415] : []), 429, 503, 504];
  return {
    operationId: id,
    tags: ['reading'],
    summary,
    security: SECURITY,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: json(body) } }),
    responses: {
      [isPost ? 201 : 200]: {
        description: isPost ? 'Stored' : 'Done',
        content: contentOf(answer, media),
      },
      ...refusalsOf(statuses, INGESTION.envelope),
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

function refusalsOf(statuses: readonly number[], schema: z.ZodType, more: Json = {}): Json {
  return Object.fromEntries(
    statuses.map((status) => {
      const codes = Object.entries(REFUSAL_STATUS).filter(([, usual]) => usual === status);
      const description = codes.map(([code]) => `\`${code}\``).join(', ') || 'Refused';
      return [status, { description, content: { ...json(schema), ...more } }];
    }),
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
