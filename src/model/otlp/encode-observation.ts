import { hash } from 'node:crypto';
import type { Attributes } from '@opentelemetry/api';
import { customFieldsIn } from '../custom-fields.ts';
import type { ObservationDetails } from '../details.ts';
import type {
  Instant,
  Observation,
  ObservationKind,
  Payload,
  PayloadField,
} from '../observation.ts';
import { PAYLOAD_FIELDS } from '../observation.ts';
import {
  EMBEDDED_KEY,
  EMBEDDED_PAYLOAD_KEYS,
  type EmbeddedForm,
  encodeEmbedded,
} from './embedded-observation.ts';
import type { OwnSpan, OwnSpanEvent, SpanOrigin } from './own-span.ts';

/** The origin of every span that is made of an observation. */
export const OBSERVATION_ORIGIN: SpanOrigin = { service: 'tracectl', scope: 'tracectl' };

/**
 * An observation as a span that every OpenTelemetry tool can read: GenAI and OpenInference attributes, and
 * the exception event of an error. The fields that no span has are in one attribute, from which another
 * tracectl makes the same observation again. A missing start or end is replaced by `receivedAt`
 * (milliseconds since the epoch); a span without an end has not ended.
 */
export function spanOfObservation(
  observation: Observation,
  payload: Payload,
  receivedAt: number,
): OwnSpan {
  const forms: Partial<Record<PayloadField, EmbeddedForm>> = {};
  const attributes = semanticAttributes(observation);
  for (const field of PAYLOAD_FIELDS) addPayload(attributes, forms, field, payload[field]);
  for (const [key, value] of Object.entries(customFieldsIn(observation))) {
    attributes[`custom_fields.${key}`] = value;
  }
  attributes[EMBEDDED_KEY] = embeddedOf(observation, forms);
  const fallback = { ms: receivedAt, ns: 0 };
  const end = observation.ended ? (observation.endTime ?? fallback) : undefined;
  const start = observation.startTime ?? end ?? fallback;
  const { parentId } = observation;
  return {
    traceId: traceIdOf(observation.traceId ?? observation.id),
    spanId: spanIdOf(observation.id),
    ...(parentId === null ? {} : { parentSpanId: spanIdOf(parentId) }),
    name: observation.name || (observation.kind ?? 'observation'),
    kind: isModelCall(observation.kind) ? 'client' : 'internal',
    start,
    end,
    attributes,
    events: eventsOf(observation, end ?? start),
    status: statusOf(observation),
  };
}

function embeddedOf(
  { index: _index, payloadMask: _mask, customFields: _custom, name, ...fields }: Observation,
  forms: Partial<Record<PayloadField, EmbeddedForm>>,
): string {
  const isNameOfSpan = name !== null && name !== '' && name.isWellFormed();
  return encodeEmbedded({ ...fields, name: isNameOfSpan ? undefined : name, forms });
}

/** Keeps 32 hex digits, with or without the dashes of a UUID; hashes every other id. */
export function traceIdOf(id: string): string {
  const digits = UUID.test(id) ? id.replaceAll('-', '') : id;
  return /^[0-9a-f]{32}$/i.test(digits) && !isZero(digits)
    ? digits.toLowerCase()
    : hashed('trace', id, 16);
}

/** Keeps 16 hex digits, also after a trace id as in ids of OTLP observations; hashes every other id. */
export function spanIdOf(id: string): string {
  const digits = /^[0-9a-f]{32}:([0-9a-f]{16})$/.exec(id)?.[1] ?? id;
  return /^[0-9a-f]{16}$/i.test(digits) && !isZero(digits)
    ? digits.toLowerCase()
    : hashed('span', id, 8);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function isZero(digits: string): boolean {
  return /^0+$/.test(digits);
}

/** The hash depends only on the id, so that events of one observation, and its children, have the same ids. */
function hashed(what: string, id: string, bytes: number): string {
  return hash('sha256', `${what}\0${id}`, 'hex').slice(0, bytes * 2);
}

function semanticAttributes(observation: Observation): Attributes {
  const { kind, model, usage, sessionId, userId } = observation;
  const names = kind === null ? undefined : KIND_NAMES[kind];
  const attributes: Attributes = {};
  const add = (key: string, value: string | null | undefined) => {
    if (value) attributes[key] = value;
  };
  add('openinference.span.kind', names?.openInference);
  add('gen_ai.operation.name', names?.genAi);
  if (kind === 'tool') add('gen_ai.tool.name', observation.details?.tool ?? observation.name);
  if (kind === 'agent') add('gen_ai.agent.name', observation.name);
  add('gen_ai.request.model', model);
  add(kind === 'embedding' ? 'embedding.model_name' : 'llm.model_name', model);
  add('session.id', sessionId);
  add('gen_ai.conversation.id', sessionId);
  add('user.id', userId);
  for (const [name, count] of Object.entries(usage ?? {})) {
    for (const key of USAGE_KEYS.get(name) ?? []) attributes[key] = count;
  }
  add('error.type', observation.error?.type);
  addDetails(attributes, observation.details ?? {});
  return attributes;
}

function addDetails(
  attributes: Attributes,
  { provider, tags, ttftMs, cost }: ObservationDetails,
): void {
  if (provider !== undefined) attributes['gen_ai.provider.name'] = provider;
  if (tags !== undefined) attributes['tag.tags'] = [...tags];
  if (ttftMs !== undefined) attributes['gen_ai.response.time_to_first_chunk'] = ttftMs / 1000;
  if (cost !== undefined) attributes['gen_ai.usage.cost'] = cost.total / 1e9;
}

type KindNames = { readonly openInference?: string; readonly genAi?: string };

const KIND_NAMES: Readonly<Record<ObservationKind, KindNames>> = {
  event: {},
  span: {},
  generation: { openInference: 'LLM', genAi: 'chat' },
  llm: { openInference: 'LLM', genAi: 'chat' },
  model: { openInference: 'LLM', genAi: 'chat' },
  agent: { openInference: 'AGENT', genAi: 'invoke_agent' },
  tool: { openInference: 'TOOL', genAi: 'execute_tool' },
  chain: { openInference: 'CHAIN' },
  graph: { openInference: 'CHAIN' },
  retriever: { openInference: 'RETRIEVER', genAi: 'retrieval' },
  evaluator: { openInference: 'EVALUATOR' },
  embedding: { openInference: 'EMBEDDING', genAi: 'embeddings' },
  guardrail: { openInference: 'GUARDRAIL' },
};

const USAGE_KEYS: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    input_tokens: ['gen_ai.usage.input_tokens', 'llm.token_count.prompt'],
    output_tokens: ['gen_ai.usage.output_tokens', 'llm.token_count.completion'],
    total_tokens: ['llm.token_count.total'],
    cached_tokens: [
      'gen_ai.usage.cache_read.input_tokens',
      'llm.token_count.prompt_details.cache_read',
    ],
    cache_write_tokens: [
      'gen_ai.usage.cache_creation.input_tokens',
      'llm.token_count.prompt_details.cache_write',
    ],
    cache_write_1h_tokens: ['gen_ai.usage.details.ephemeral_1h_input_tokens'],
    reasoning_tokens: [
      'gen_ai.usage.reasoning.output_tokens',
      'llm.token_count.completion_details.reasoning',
    ],
    input_audio_tokens: ['llm.token_count.prompt_details.audio'],
    output_audio_tokens: ['llm.token_count.completion_details.audio'],
  }),
);

function isModelCall(kind: ObservationKind | null): boolean {
  return kind === 'generation' || kind === 'llm' || kind === 'model' || kind === 'embedding';
}

function addPayload(
  attributes: Attributes,
  forms: Partial<Record<PayloadField, EmbeddedForm>>,
  field: PayloadField,
  json: string | undefined,
): void {
  if (json === undefined) return;
  const text = plainText(json);
  forms[field] = text === undefined ? 'json' : 'text';
  attributes[EMBEDDED_PAYLOAD_KEYS[field]] = text ?? json;
  const mimeKey = MIME_KEYS[field];
  if (mimeKey === undefined) return;
  attributes[mimeKey] = text === undefined ? 'application/json' : 'text/plain';
}

const MIME_KEYS: Readonly<Partial<Record<PayloadField, string>>> = {
  inputs: 'input.mime_type',
  outputs: 'output.mime_type',
};

/** The content of a JSON string; undefined for other JSON, and if encoding the content gives another spelling. */
function plainText(json: string): string | undefined {
  if (!json.startsWith('"')) return undefined;
  const text = JSON.parse(json) as string;
  const isReversible = text !== '' && text.isWellFormed() && JSON.stringify(text) === json;
  return isReversible ? text : undefined;
}

function statusOf({ status, operation, error }: Observation): OwnSpan['status'] {
  if (status === 'error' || operation === 'error') {
    const message = error?.message ?? null;
    return message === null ? { code: 2 } : { code: 2, message };
  }
  return { code: status === 'success' || status === 'ok' ? 1 : 0 };
}

/** An error as the event with which OpenTelemetry records exceptions. */
function eventsOf({ error }: Observation, time: Instant): OwnSpanEvent[] {
  if (error === null) return [];
  const attributes: Attributes = {};
  for (const part of ['type', 'message', 'stacktrace'] as const) {
    const text = error[part];
    if (text) attributes[`exception.${part}`] = text;
  }
  if (Object.keys(attributes).length === 0) return [];
  return [{ name: 'exception', time, attributes }];
}
