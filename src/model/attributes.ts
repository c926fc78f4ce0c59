import type { DetailRule } from './detail-attributes.ts';
import { detailRules } from './detail-attributes.ts';
import type { ObservationKind } from './observation.ts';
import type { TextField } from './texts.ts';

/**
 * The mapping from span attributes to the fields of an observation, as data. Every list is in order of
 * precedence: the first attribute with a non-empty value gives the field. All other attributes stay in the
 * metadata, also those that are in a list.
 *
 * The conventions: tracectl's own six, OpenTelemetry GenAI (current, deprecated, and its events),
 * OpenInference, OpenLLMetry (Traceloop), Vercel AI SDK, MLflow, Langfuse, LangSmith, Laminar and others.
 */

/** A key that ends in `.*` matches a numbered family, such as `llm.input_messages.0.message.role`. */
const INPUTS = [
  'input',
  'llm.input_messages',
  'langfuse.observation.input',
  'input.value',
  'gen_ai.input.messages',
  'gen_ai.prompt',
  'gen_ai.prompt.*',
  'llm.input_messages.*',
  'llm.prompts',
  'llm.prompts.*',
  'ai.prompt.messages',
  'ai.prompt',
  'ai.toolCall.args',
  'ai.values',
  'ai.value',
  'gen_ai.tool.call.arguments',
  'traceloop.entity.input',
  'lmnr.span.input',
  'mlflow.spanInputs',
  'genkit:input',
  'gcp.vertex.agent.llm_request',
  'gcp.vertex.agent.tool_call_args',
  'tool_arguments',
  'prompt',
  'gen_ai.retrieval.query.text',
] as const;

const OUTPUTS = [
  'output',
  'llm.output_messages',
  'langfuse.observation.output',
  'output.value',
  'gen_ai.output.messages',
  'gen_ai.completion',
  'gen_ai.completion.*',
  'llm.output_messages.*',
  'llm.completions.*',
  'ai.response.text',
  'ai.response.object',
  'ai.response.toolCalls',
  'ai.toolCall.result',
  'ai.result.text',
  'ai.result.object',
  'ai.result.toolCalls',
  'gen_ai.tool.call.result',
  'traceloop.entity.output',
  'lmnr.span.output',
  'mlflow.spanOutputs',
  'genkit:output',
  'gcp.vertex.agent.llm_response',
  'gcp.vertex.agent.tool_response',
  'retrieval.documents.*',
  'gen_ai.retrieval.documents',
  'tool_response',
  'final_result',
] as const;

const MODELS = [
  'langfuse.observation.model.name',
  'gen_ai.response.model',
  'gen_ai.request.model',
  'ai.response.model',
  'ai.model.id',
  'llm.model_name',
  'embedding.model_name',
  'reranker.model_name',
  'langsmith.metadata.ls_model_name',
  'llm.response.model',
  'llm.request.model',
  'model',
] as const;

const SESSIONS = [
  'langfuse.session.id',
  'session.id',
  'gen_ai.conversation.id',
  'ai.telemetry.metadata.sessionId',
  'langsmith.metadata.session_id',
  'langsmith.metadata.thread_id',
  'langsmith.metadata.conversation_id',
  'traceloop.association.properties.session_id',
  'lmnr.association.properties.session_id',
  'thread_id',
] as const;

const USERS = [
  'langfuse.user.id',
  'user.id',
  'enduser.id',
  'ai.telemetry.metadata.userId',
  'traceloop.association.properties.user_id',
  'lmnr.association.properties.user_id',
  'langsmith.metadata.user_id',
] as const;

/** Attributes with one count of tokens, by the name of the count in `usage`. */
const TOKENS = {
  input_tokens: [
    'gen_ai.usage.input_tokens',
    'gen_ai.usage.prompt_tokens',
    'llm.token_count.prompt',
    'ai.usage.inputTokens',
    'ai.usage.promptTokens',
    'llm.usage.prompt_tokens',
  ],
  output_tokens: [
    'gen_ai.usage.output_tokens',
    'gen_ai.usage.completion_tokens',
    'llm.token_count.completion',
    'ai.usage.outputTokens',
    'ai.usage.completionTokens',
    'llm.usage.completion_tokens',
  ],
  total_tokens: [
    'gen_ai.usage.total_tokens',
    'llm.usage.total_tokens',
    'llm.token_count.total',
    'ai.usage.totalTokens',
    'ai.usage.tokens',
  ],
  cache_read_input_tokens: [
    'gen_ai.usage.cache_read.input_tokens',
    'gen_ai.usage.cache_read_input_tokens',
    'llm.token_count.prompt_details.cache_read',
    'ai.usage.cachedInputTokens',
  ],
  cache_creation_input_tokens: [
    'gen_ai.usage.cache_creation.input_tokens',
    'gen_ai.usage.cache_creation_input_tokens',
    'llm.token_count.prompt_details.cache_write',
  ],
  reasoning_tokens: [
    'gen_ai.usage.reasoning.output_tokens',
    'gen_ai.usage.reasoning_tokens',
    'llm.token_count.completion_details.reasoning',
    'ai.usage.reasoningTokens',
  ],
} as const;

/** Attributes whose value is a JSON object of several counts, as text. */
const USAGE_OBJECTS = ['langfuse.observation.usage_details', 'langsmith.usage_metadata'] as const;

/** Names of counts in such objects, with the name of the count in `usage`. */
export const USAGE_NAMES: ReadonlyMap<string, string> = new Map([
  ['input', 'input_tokens'],
  ['input_tokens', 'input_tokens'],
  ['prompt_tokens', 'input_tokens'],
  ['output', 'output_tokens'],
  ['output_tokens', 'output_tokens'],
  ['completion_tokens', 'output_tokens'],
  ['total', 'total_tokens'],
  ['total_tokens', 'total_tokens'],
  ['cache_read_input_tokens', 'cache_read_input_tokens'],
  ['input_cached_tokens', 'cache_read_input_tokens'],
  ['cache_creation_input_tokens', 'cache_creation_input_tokens'],
  ['output_reasoning_tokens', 'reasoning_tokens'],
  ['reasoning_tokens', 'reasoning_tokens'],
]);

/** Attributes of a span precede those of its exception events; the status message is last. */
const ERROR_MESSAGES = [
  'error',
  'exception.message',
  ofEvent('exception.message'),
  'error.message',
];
const ERROR_TYPES = ['exception.type', ofEvent('exception.type'), 'error.type'];
const ERROR_STACKTRACES = [
  'exception.stacktrace',
  ofEvent('exception.stacktrace'),
  'error.stacktrace',
  'error.stack',
];

/** Values are compared in lower case, without the quotes that MLflow adds. */
type KindRule = {
  readonly key: string;
  readonly values?: Readonly<Record<string, ObservationKind>>;
  /** The kind of every span with this attribute, whatever its value. */
  readonly presence?: ObservationKind;
  /** The value is an operation id of the Vercel AI SDK, such as `ai.generateText.doGenerate`. */
  readonly vercel?: boolean;
};

const SAME: Readonly<Record<string, ObservationKind>> = {
  event: 'event',
  span: 'span',
  generation: 'generation',
  agent: 'agent',
  tool: 'tool',
  chain: 'chain',
  retriever: 'retriever',
  evaluator: 'evaluator',
  embedding: 'embedding',
  guardrail: 'guardrail',
  graph: 'graph',
  model: 'model',
  llm: 'llm',
};

const KINDS: readonly KindRule[] = [
  { key: 'langfuse.observation.type', values: SAME },
  { key: 'langsmith.span.kind', values: { ...SAME, prompt: 'chain', parser: 'chain' } },
  {
    key: 'openinference.span.kind',
    values: {
      ...SAME,
      llm: 'generation',
      reranker: 'retriever',
      prompt: 'chain',
      unknown: 'span',
    },
  },
  {
    key: 'lmnr.span.type',
    values: {
      ...SAME,
      default: 'span',
      llm: 'generation',
      executor: 'chain',
      pipeline: 'chain',
      evaluation: 'evaluator',
      human_evaluator: 'evaluator',
      cached: 'span',
    },
  },
  {
    key: 'traceloop.span.kind',
    values: { ...SAME, workflow: 'chain', task: 'span', llm: 'generation' },
  },
  {
    key: 'mlflow.spanType',
    values: {
      ...SAME,
      llm: 'generation',
      chat_model: 'generation',
      reranker: 'retriever',
      workflow: 'chain',
      task: 'span',
      parser: 'chain',
      memory: 'span',
      unknown: 'span',
    },
  },
  {
    key: 'gen_ai.operation.name',
    values: {
      chat: 'generation',
      text_completion: 'generation',
      completion: 'generation',
      generate_content: 'generation',
      generate: 'generation',
      response: 'generation',
      embeddings: 'embedding',
      embedding: 'embedding',
      execute_tool: 'tool',
      invoke_agent: 'agent',
      create_agent: 'agent',
      agent_step: 'chain',
      invoke_workflow: 'chain',
      retrieval: 'retriever',
      chain: 'chain',
    },
  },
  { key: 'ai.operationId', vercel: true },
  { key: 'operation.name', vercel: true },
  {
    key: 'llm.request.type',
    values: {
      chat: 'generation',
      completion: 'generation',
      embedding: 'embedding',
      rerank: 'retriever',
    },
  },
  { key: 'gen_ai.tool.name', presence: 'tool' },
  { key: 'gen_ai.tool.call.id', presence: 'tool' },
  { key: 'embedding.model_name', presence: 'embedding' },
  { key: 'reranker.model_name', presence: 'retriever' },
  ...MODELS.map((key) => ({ key, presence: 'generation' }) as const),
];

/**
 * The attributes that hold custom fields, by layer. Later layers override earlier ones, and `extra.metadata`
 * does not count if a span also has `metadata`.
 */
const CUSTOM_FIELDS: readonly { readonly key: string; readonly layer: CustomFieldLayerName }[] = [
  { key: 'context_metadata.custom_fields', layer: 'context' },
  { key: 'extra.metadata.custom_fields', layer: 'extra' },
  { key: 'metadata.custom_fields', layer: 'metadata' },
  { key: 'custom_fields', layer: 'event' },
];

const CUSTOM_FIELD_PREFIXES = CUSTOM_FIELDS.map(({ key, layer }) => ({ prefix: `${key}.`, layer }));

/** Attributes whose kvlist value may hold `custom_fields`, with the path to it. */
const CUSTOM_FIELDS_WITHIN: readonly {
  readonly key: string;
  readonly layer: CustomFieldLayerName;
  readonly within: readonly string[];
}[] = [
  { key: 'context_metadata', layer: 'context', within: ['custom_fields'] },
  { key: 'extra', layer: 'extra', within: ['metadata', 'custom_fields'] },
  { key: 'extra.metadata', layer: 'extra', within: ['custom_fields'] },
  { key: 'metadata', layer: 'metadata', within: ['custom_fields'] },
];

export type CustomFieldLayerName = 'context' | 'extra' | 'metadata' | 'event';
export const CUSTOM_FIELD_LAYERS = ['context', 'extra', 'metadata', 'event'] as const;

/** Events of a span that hold its inputs or outputs if no attribute does. */
const EVENT_ROLES: ReadonlyMap<string, EventRole> = new Map([
  ['exception', 'exception'],
  ['gen_ai.system.message', 'input'],
  ['gen_ai.user.message', 'input'],
  ['gen_ai.assistant.message', 'input'],
  ['gen_ai.tool.message', 'input'],
  ['gen_ai.content.prompt', 'input'],
  ['gen_ai.choice', 'output'],
  ['gen_ai.content.completion', 'output'],
  ['gen_ai.client.inference.operation.details', 'both'],
]);
type EventRole = 'exception' | 'input' | 'output' | 'both';

/** A field that an attribute can give. `rank` is its place in its list: the lowest with a value wins. */
export type AttributeRule =
  | { readonly role: 'input' | 'output'; readonly rank: number; readonly family: boolean }
  | {
      readonly role: 'model' | 'session' | 'user' | 'message' | 'type' | 'stacktrace';
      readonly rank: number;
    }
  | { readonly role: 'tokens'; readonly rank: number; readonly name: string }
  | { readonly role: 'usage'; readonly rank: number }
  | DetailRule
  | { readonly role: 'context_metadata' }
  /** A whole observation that another tracectl embedded; see otlp/embedded-observation.ts. */
  | { readonly role: 'embedded' }
  | { readonly role: 'original_parent' }
  | { readonly role: 'kind'; readonly rank: number; readonly kindOf: KindRule }
  | {
      readonly role: 'custom_fields';
      readonly layer: CustomFieldLayerName;
      /** Keys on the path to `custom_fields` within a kvlist value. */
      readonly within?: readonly string[];
      /** The custom field's name, if the attribute key ends with it. */
      readonly name?: string;
    };

/** An attribute key with everything that depends on the key only. */
export type AttributeKey = {
  readonly text: string;
  readonly rules: readonly AttributeRule[];
  /** A rule reads the value; other rules only need to know that it is not empty. */
  readonly needsValue: boolean;
  /** The role of events with this name. */
  readonly event: EventRole | undefined;
  /** The field of the texts in its value. */
  readonly field: TextField;
  /** Keys on the path to custom fields within a kvlist value. */
  readonly within: readonly string[] | undefined;
};

/** The attribute with the span id of a dropped parent; see `FormatModule.reparent`. */
export const ORIGINAL_PARENT_KEY = 'tracectl.original_parent_id';

const NO_RULES: readonly AttributeRule[] = [];
const FAMILIES: { prefix: string; rule: AttributeRule }[] = [];
const EXACT = buildRules();

/** A cache: an application has few keys, and sends the same ones with every span. */
const known = new Map<string, AttributeKey>();
const MAX_KNOWN = 4096;

export function attributeKey(text: string): AttributeKey {
  const found = known.get(text);
  if (found !== undefined) return found;
  const rules = EXACT.get(text) ?? rulesOfFamily(text);
  const key = {
    text,
    rules,
    needsValue: rules.some((rule) => !VALUELESS.has(rule.role)),
    event: EVENT_ROLES.get(text),
    field: textFieldOf(text, rules),
    within: stepsOf(rules),
  };
  if (known.size >= MAX_KNOWN) known.clear();
  if (text.length <= 256) known.set(text, key);
  return key;
}

function stepsOf(rules: readonly AttributeRule[]): readonly string[] | undefined {
  for (const rule of rules) if (rule.role === 'custom_fields') return rule.within;
  return undefined;
}

function textFieldOf(text: string, rules: readonly AttributeRule[]): TextField {
  const named = TEXT_FIELDS_OF_KEYS.get(text);
  if (named !== undefined) return named;
  for (const rule of rules) {
    const isWithin = rule.role === 'custom_fields' && rule.within !== undefined;
    const field = isWithin ? undefined : TEXT_FIELDS_OF_ROLES.get(rule.role);
    if (field !== undefined) return field;
  }
  return 'attributes';
}

const TEXT_FIELDS_OF_KEYS: ReadonlyMap<string, TextField> = new Map([
  ['metadata', 'metadata'],
  ['extra.metadata', 'metadata'],
  ['tracectl.events', 'events'],
] satisfies [string, TextField][]);

const TEXT_FIELDS_OF_ROLES: ReadonlyMap<AttributeRule['role'], TextField> = new Map([
  ['input', 'inputs'],
  ['output', 'outputs'],
  ['message', 'error'],
  ['type', 'error'],
  ['stacktrace', 'error'],
  ['context_metadata', 'metadata'],
  ['custom_fields', 'custom_fields'],
  ['original_parent', 'fixed'],
] satisfies [AttributeRule['role'], TextField][]);

const VALUELESS: ReadonlySet<AttributeRule['role']> = new Set([
  'input',
  'output',
  'context_metadata',
]);

/** The kind that an attribute's value names; undefined for an unknown value. */
export function kindOfAttribute(rule: KindRule, text: string): ObservationKind | undefined {
  if (rule.presence !== undefined) return rule.presence;
  if (rule.vercel === true) return vercelKind(text);
  const value = (text.startsWith('"') ? text.replaceAll('"', '') : text).toLowerCase();
  return rule.values !== undefined && Object.hasOwn(rule.values, value)
    ? rule.values[value]
    : undefined;
}

/** An `operation.name` is the operation id, a space and the function id. */
function vercelKind(text: string): ObservationKind | undefined {
  const [operation = ''] = text.split(' ', 1);
  if (!operation.startsWith('ai.')) return undefined;
  if (operation === 'ai.toolCall') return 'tool';
  if (operation.startsWith('ai.embed'))
    return operation.endsWith('.doEmbed') ? 'embedding' : 'chain';
  if (operation.endsWith('.doGenerate') || operation.endsWith('.doStream')) return 'generation';
  return 'chain';
}

/** An attribute of an exception event, in a list of attributes of spans. */
function ofEvent(key: string): string {
  return `event:${key}`;
}

/** The rules for an attribute of an exception event. */
export function exceptionRules(key: string): readonly AttributeRule[] {
  return EXACT.get(ofEvent(key)) ?? NO_RULES;
}

/** The rank of a status message: after every attribute and event. */
export const STATUS_MESSAGE_RANK = ERROR_MESSAGES.length;

function buildRules(): Map<string, readonly AttributeRule[]> {
  const rules = new Map<string, AttributeRule[]>();
  const add = (key: string, rule: AttributeRule) => {
    if (key.endsWith('.*')) FAMILIES.push({ prefix: key.slice(0, -1), rule });
    else rules.set(key, [...(rules.get(key) ?? []), rule]);
  };
  const addAll = (
    role: 'input' | 'output' | 'model' | 'session' | 'user' | 'message' | 'type' | 'stacktrace',
    keys: readonly string[],
  ) => {
    for (const [rank, key] of keys.entries()) {
      if (role === 'input' || role === 'output') {
        add(key, { role, rank, family: key.endsWith('.*') });
      } else {
        add(key, { role, rank });
      }
    }
  };
  addAll('input', INPUTS);
  addAll('output', OUTPUTS);
  addAll('model', MODELS);
  addAll('session', SESSIONS);
  addAll('user', USERS);
  addAll('message', ERROR_MESSAGES);
  addAll('type', ERROR_TYPES);
  addAll('stacktrace', ERROR_STACKTRACES);
  for (const [name, keys] of Object.entries(TOKENS)) {
    for (const [rank, key] of keys.entries()) add(key, { role: 'tokens', rank, name });
  }
  for (const [rank, key] of USAGE_OBJECTS.entries()) add(key, { role: 'usage', rank });
  for (const [rank, kind] of KINDS.entries()) add(kind.key, { role: 'kind', rank, kindOf: kind });
  for (const [key, rule] of detailRules()) add(key, rule);
  add('context_metadata', { role: 'context_metadata' });
  add('tracectl.observation', { role: 'embedded' });
  add(ORIGINAL_PARENT_KEY, { role: 'original_parent' });
  for (const { key, layer } of CUSTOM_FIELDS) add(key, { role: 'custom_fields', layer });
  for (const { key, layer, within } of CUSTOM_FIELDS_WITHIN) {
    add(key, { role: 'custom_fields', layer, within });
  }
  return rules;
}

function rulesOfFamily(text: string): readonly AttributeRule[] {
  for (const { prefix, layer } of CUSTOM_FIELD_PREFIXES) {
    if (text.startsWith(prefix)) {
      return [{ role: 'custom_fields', layer, name: text.slice(prefix.length) }];
    }
  }
  for (const { prefix, rule } of FAMILIES) {
    if (text.startsWith(prefix) && isIndexed(text.slice(prefix.length))) return [rule];
  }
  return NO_RULES;
}

/** Families are numbered from 0 to 9999: `0.message.role`. */
function isIndexed(rest: string): boolean {
  return /^(?:0|[1-9]\d{0,3})(?:\.|$)/.test(rest);
}

/** The prefix of the numbered family that a key belongs to, such as `llm.input_messages.`. */
export function familyOf(text: string): string | undefined {
  return FAMILIES.find(({ prefix }) => text.startsWith(prefix))?.prefix;
}
