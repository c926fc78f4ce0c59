import type { z } from 'zod';
import { API_CODES, type ApiCode } from './errors.ts';
import { ingestionPaths } from './ingestion.ts';
import { INGESTION } from './ingestion-schemas.ts';
import type { Json } from './json-schema.ts';
import { componentsOf, contentOf, fieldsOf, reference, refusalHeadersOf } from './json-schema.ts';
import type { Operation } from './operation.ts';
import { RUNNING_SCHEMAS } from './running-schemas.ts';
import { SCHEMAS } from './schemas.ts';
import { UI_SCHEMAS } from './ui-schemas.ts';

const TITLE = 'tracectl';
const ABOUT = `Two listeners: management, with the admin token, and ingestion and reading, with the key of a project.

Every management error is \`{"code","message"}\`. Beside the answers listed for each operation: 403 \`foreign_site\` for the \`Origin\` of another site, 421 \`misdirected\` for the \`Host\` of another one, 404 \`not_found\` for a path that is not served, 405 \`method_not_allowed\` with \`Allow\`, 408 \`request_timeout\` and 431 \`headers_too_large\`. A request with the cookie of a session may get 503 \`unavailable\`.

The ingestion listener answers in the form of the path, and beside the listed answers: 404 \`not_found\` for a path that is not served, 405 \`method_not_allowed\` with \`Allow\`, 408 \`request_timeout\`, and 431 \`invalid_request\` for headers above 32 KiB.

HEAD is answered as GET is, without a body. Times are ISO 8601 in UTC.`;

/** The OpenAPI 3.1 document of both listeners, generated from the schemas that validate requests. */
export function openApiDocument(operations: readonly Operation[]): Json {
  return {
    openapi: '3.1.0',
    info: { title: TITLE, version: '1', description: ABOUT },
    servers: [{ url: '/', description: 'The admin listener, which serves this document' }],
    tags: [
      'organization',
      'projects',
      'keys',
      'usage',
      'erasures',
      'service',
      'dead letters',
      'ui',
      'ingestion',
      'reading',
    ].map((name) => ({ name })),
    security: [{ admin_token: [] }, { ui_session: [] }],
    paths: { ...managementPaths(operations), ...ingestionPaths() },
    components: {
      securitySchemes: {
        admin_token: { type: 'http', scheme: 'bearer', description: 'The admin token' },
        ui_session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'tracectl-ui-…',
          description:
            'A session of the web UI. A change also needs the header `x-tracectl-ui: 1` and the Origin header.',
        },
        project_key: { type: 'http', scheme: 'bearer', description: 'The key of a project, ws_…' },
        project_key_header: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
      schemas: componentsOf(
        [SCHEMAS, UI_SCHEMAS, RUNNING_SCHEMAS, INGESTION].flatMap((each) => Object.values(each)),
      ),
    },
  };
}

const WITH_BODY = [
  'invalid_json',
  'body_too_large',
  'unsupported_content_type',
  'unsupported_encoding',
] as const;
const WITH_CREDENTIAL = ['unauthorized', 'rate_limited'] as const;
const WITH_STORE = ['unavailable', 'query_timeout'] as const;

/** The codes that an operation may answer: its own and the common ones. */
function codesOf(operation: Operation): ApiCode[] {
  const { isOpen, path, body, usesStore, codes } = operation;
  const all: ApiCode[] = [
    'invalid_request',
    // An id that is too long, or empty.
    ...(path.includes(':') ? (['not_found'] as const) : []),
    ...(body === undefined ? [] : WITH_BODY),
    ...(isOpen === true ? [] : WITH_CREDENTIAL),
    ...(usesStore === false ? [] : WITH_STORE),
    ...codes,
  ];
  return [...new Set(all)];
}

function managementPaths(operations: readonly Operation[]): Json {
  const paths: Record<string, Json> = {};
  for (const operation of operations) {
    const path = operation.path.replaceAll(/:(\w+)/g, '{$1}');
    const item = paths[path] ?? {};
    paths[path] = item;
    item[operation.method.toLowerCase()] = described(operation);
  }
  return paths;
}

function described(operation: Operation): Json {
  const query = operation.parameters ?? queryParameters(operation.query);
  const parameters = [...pathParameters(operation.path), ...query];
  return {
    operationId: operation.id,
    tags: [operation.tag],
    summary: operation.summary,
    ...(operation.isOpen === true ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(operation.body === undefined
      ? {}
      : {
          requestBody: {
            required: operation.bodyIsOptional !== true,
            content: { 'application/json': { schema: reference(operation.body) } },
          },
        }),
    responses: { [operation.status]: success(operation), ...refusals(operation) },
  };
}

const DESCRIPTIONS = {
  200: 'Success',
  201: 'Created',
  202: 'Accepted; the work goes on in the background',
  204: 'Deleted; no body',
} as const;

function success({ status, answer, media }: Operation): Json {
  const description = DESCRIPTIONS[status];
  if (answer === undefined) return { description };
  return { description, content: contentOf(answer, media) };
}

/** One response for each status; its schema lists the possible codes. */
function refusals(operation: Operation): Json {
  const byStatus = new Map<number, ApiCode[]>();
  for (const code of codesOf(operation)) {
    const { status } = API_CODES[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const entries = [...byStatus].sort(([a], [b]) => a - b);
  return Object.fromEntries(entries.map(([status, codes]) => [status, refusal(codes)]));
}

function refusal(codes: readonly ApiCode[]): Json {
  const description = codes.map((code) => `\`${code}\`: ${API_CODES[code].meaning}`).join(' ');
  const schema = {
    allOf: [
      { $ref: '#/components/schemas/Error' },
      { type: 'object', properties: { code: { enum: [...codes] } } },
    ],
  };
  return {
    description,
    ...refusalHeadersOf(codes),
    content: { 'application/json': { schema } },
  };
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters(query: z.ZodType): Json[] {
  return fieldsOf(query).map(({ name, isRequired, field: { description, ...schema } }) => ({
    name,
    in: 'query',
    required: isRequired,
    ...(description === undefined ? {} : { description }),
    schema,
  }));
}
