import { z } from 'zod';

export type Json = Record<string, unknown>;

const COMPONENTS = '#/components/schemas/';

/** Schemas with an id are components of the document; others refer to them by the id. */
export function reference(schema: z.ZodType): Json {
  return { $ref: `${COMPONENTS}${idOf(schema)}` };
}

/** The content of an answer: JSON, or the media types of another form. */
export function contentOf(
  schema: z.ZodType,
  media: readonly string[] = ['application/json'],
): Json {
  return Object.fromEntries(media.map((type) => [type, { schema: reference(schema) }]));
}

const WWW_AUTHENTICATE: Json = { schema: { type: 'string' } };
const ACCEPT_ENCODING: Json = {
  description: 'The encodings that the body may have',
  schema: { type: 'string' },
};
const RETRY_AFTER: Json = { description: 'Seconds', schema: { type: 'integer', minimum: 1 } };
/** Codes of requests that a client may repeat after a while. */
const RETRIED: ReadonlySet<string> = new Set([
  ...['monthly_limit', 'hourly_limit', 'rate_limited', 'idempotency_in_progress', 'unavailable'],
]);

/** The headers of an answer that refuses a request with one of the codes. */
export function refusalHeadersOf(codes: readonly string[]): { readonly headers?: Json } {
  const headers = {
    ...(codes.includes('unauthorized') ? { 'WWW-Authenticate': WWW_AUTHENTICATE } : {}),
    ...(codes.some((code) => RETRIED.has(code)) ? { 'Retry-After': RETRY_AFTER } : {}),
    ...(codes.includes('unsupported_encoding') ? { 'Accept-Encoding': ACCEPT_ENCODING } : {}),
  };
  return Object.keys(headers).length === 0 ? {} : { headers };
}

/** The components of a document: JSON Schema by id, each referring to the others. */
export function componentsOf(all: readonly z.ZodType[]): Json {
  const registry = z.registry<{ id: string }>();
  for (const schema of all) registry.add(schema, { ...schema.meta(), id: idOf(schema) });
  const made = z.toJSONSchema(registry, { uri: (id) => `${COMPONENTS}${id}` });
  return Object.fromEntries(
    Object.entries(made.schemas).map(([id, schema]) => {
      const { $id, $schema, id: _id, ...rest } = plain(schema) as Json;
      return [id, rest];
    }),
  );
}

/** The fields of a flat schema, for the parameters of a query. */
export function fieldsOf(schema: z.ZodType): { name: string; isRequired: boolean; field: Json }[] {
  const { properties = {}, required = [] } = z.toJSONSchema(schema, { io: 'input' });
  return Object.entries(properties).map(([name, field]) => ({
    name,
    isRequired: required.includes(name),
    field: plain(field) as Json,
  }));
}

function idOf(schema: z.ZodType): string {
  const id = schema.meta()?.id;
  if (id === undefined) throw new Error('a schema of the admin API has no id');
  return id;
}

/** Removes patterns that repeat a format or the type of a number. */
function plain(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(plain);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.entries(schema).map(([key, value]) => [key, plain(value)] as const);
  const { pattern, ...rest } = Object.fromEntries(entries) as Json;
  const isSaid = rest.format !== undefined || rest.type === 'integer';
  return typeof pattern !== 'string' || isSaid ? withPattern(rest, pattern) : { ...rest, pattern };
}

/** Tells a schema's `pattern` from a property with that name. */
function withPattern(rest: Json, pattern: unknown): Json {
  return typeof pattern === 'object' && pattern !== null ? { ...rest, pattern } : rest;
}
