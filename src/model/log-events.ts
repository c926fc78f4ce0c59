import type { ObservationKind } from './observation.ts';

/**
 * The mapping of log events, as data: from the records that instrumentations and coding agents send over OTLP logs to spans, which
 * then become observations by `conventions.ts`. docs/conventions.md is generated from this file, too.
 */

/** An agent whose events have no spans of their own. */
export type EventSource = {
  /** Its event names begin with this. */
  readonly prefix: string;
  /** A record of this instrumentation scope has the name of its event without the prefix. */
  readonly scope?: string;
  /** The name of the trace's root. */
  readonly root: string;
  readonly provider: string;
  /** Attributes with the session, and with the prompt or turn within it. Events of one prompt are one trace. */
  readonly session: string;
  readonly turn?: string;
  /** Attributes with the user, in order of precedence, if a record has no `user.id`. */
  readonly users: readonly string[];
};

export const EVENT_SOURCES: readonly EventSource[] = [
  {
    prefix: 'claude_code.',
    scope: 'com.anthropic.claude_code.events',
    root: 'claude_code',
    provider: 'anthropic',
    session: 'session.id',
    turn: 'prompt.id',
    users: ['user.email', 'user.account_uuid', 'user.account_id'],
  },
  {
    prefix: 'codex.',
    root: 'codex',
    provider: 'openai',
    session: 'conversation.id',
    users: ['user.email', 'user.account_id'],
  },
];

/** How the value of a log attribute is read: a malformed one is ignored, and noted. */
export type LogValue = 'text' | 'count' | 'amount' | 'duration' | 'content';

/** An attribute of a span with the log attributes that give it, in order of precedence. */
export type LogAttribute = {
  readonly to: string;
  readonly from: readonly string[];
  readonly as: LogValue;
};

export type EventRule = {
  /**
   * `root`: the root of its trace. `prompt`: the same, with the input of the trace. `update`: more about the observation with the
   * same key. Undefined: an observation of its own below the root.
   */
  readonly role?: 'root' | 'prompt' | 'update';
  readonly kind: ObservationKind;
  /** The attribute that identifies its observation among those of its trace; without it the record itself does. */
  readonly key?: string;
  /** The attribute with the observation's name. */
  readonly name?: string;
  readonly attributes: readonly LogAttribute[];
  /** An update with a listed value ends its observation with an error. */
  readonly failure?: { readonly key: string; readonly values: readonly string[] };
  /** Only events with this value and this attribute are stored, and those with an error; the others are accepted and dropped. */
  readonly only?: { readonly key: string; readonly value: string; readonly with?: string };
};

/** Log attributes of any event: whether it succeeded, its error, and its duration in milliseconds. */
export const SUCCESS_KEY = 'success';
export const FAILURE_KEYS = ['error', 'error.message'] as const;
export const FAILURE_TYPE_KEYS = ['error_type', 'error.type', 'error_name'] as const;
/** HTTP statuses from 400 on are failures. */
export const FAILURE_STATUS_KEYS = ['status_code', 'http.response.status_code'] as const;
export const DURATION_KEY = 'duration_ms';
/** The time of an event whose record has none. */
export const TIMESTAMP_KEY = 'event.timestamp';

const CLAUDE_CALL: readonly LogAttribute[] = [
  { to: 'gen_ai.request.model', from: ['model'], as: 'text' },
  { to: 'gen_ai.usage.input_tokens', from: ['input_tokens'], as: 'count' },
  { to: 'gen_ai.usage.output_tokens', from: ['output_tokens'], as: 'count' },
  { to: 'gen_ai.usage.cache_read.input_tokens', from: ['cache_read_tokens'], as: 'count' },
  { to: 'gen_ai.usage.cache_creation.input_tokens', from: ['cache_creation_tokens'], as: 'count' },
  {
    to: 'gen_ai.usage.details.ephemeral_1h_input_tokens',
    from: ['cache_creation_1h_tokens'],
    as: 'count',
  },
  { to: 'gen_ai.usage.cost', from: ['cost_usd'], as: 'amount' },
  { to: 'ai.response.msToFirstChunk', from: ['ttft_ms'], as: 'duration' },
  // The spans of the client have it as the id of their response.
  { to: 'gen_ai.response.id', from: ['request_id'], as: 'text' },
];

const CLAUDE_TOOL: readonly LogAttribute[] = [
  { to: 'gen_ai.tool.name', from: ['tool_name'], as: 'text' },
  { to: 'gen_ai.tool.call.id', from: ['tool_use_id'], as: 'text' },
  { to: 'gen_ai.tool.call.arguments', from: ['tool_input', 'tool_parameters'], as: 'content' },
];

const CODEX_TOOL: readonly LogAttribute[] = [
  { to: 'gen_ai.tool.name', from: ['tool_name'], as: 'text' },
  { to: 'gen_ai.tool.call.id', from: ['call_id'], as: 'text' },
  { to: 'gen_ai.tool.call.arguments', from: ['arguments'], as: 'content' },
  { to: 'gen_ai.tool.call.result', from: ['output'], as: 'content' },
];

export const PROMPT_INPUT = 'input.value';
const PROMPT: readonly LogAttribute[] = [{ to: PROMPT_INPUT, from: ['prompt'], as: 'content' }];

export const LOG_EVENTS: Readonly<Record<string, EventRule>> = {
  'claude_code.user_prompt': { role: 'prompt', kind: 'agent', attributes: PROMPT },
  'claude_code.api_request': { kind: 'generation', key: 'request_id', attributes: CLAUDE_CALL },
  'claude_code.api_error': { kind: 'generation', key: 'request_id', attributes: CLAUDE_CALL },
  'claude_code.assistant_response': {
    role: 'update',
    kind: 'generation',
    key: 'request_id',
    attributes: [{ to: 'output.value', from: ['response'], as: 'content' }],
  },
  'claude_code.api_response_body': {
    role: 'update',
    kind: 'generation',
    key: 'request_id',
    attributes: [{ to: 'output.value', from: ['body'], as: 'content' }],
  },
  'claude_code.api_request_body': {
    kind: 'event',
    attributes: [{ to: 'input.value', from: ['body'], as: 'content' }],
  },
  'claude_code.tool_result': {
    kind: 'tool',
    key: 'tool_use_id',
    name: 'tool_name',
    attributes: CLAUDE_TOOL,
  },
  'claude_code.tool_decision': {
    role: 'update',
    kind: 'tool',
    key: 'tool_use_id',
    name: 'tool_name',
    attributes: CLAUDE_TOOL,
    failure: { key: 'decision', values: ['reject'] },
  },
  'codex.conversation_starts': {
    role: 'root',
    kind: 'agent',
    attributes: [{ to: 'gen_ai.provider.name', from: ['provider_name'], as: 'text' }],
  },
  'codex.user_prompt': { role: 'prompt', kind: 'agent', attributes: PROMPT },
  'codex.api_request': { kind: 'span', attributes: [] },
  'codex.websocket_request': { kind: 'span', attributes: [] },
  'codex.websocket_connect': { kind: 'span', attributes: [] },
  'codex.sse_event': {
    kind: 'generation',
    // The end of a response is two events: one of the stream, and one with the counts.
    only: { key: 'event.kind', value: 'response.completed', with: 'input_token_count' },
    attributes: [
      { to: 'gen_ai.request.model', from: ['model'], as: 'text' },
      { to: 'gen_ai.usage.input_tokens', from: ['input_token_count'], as: 'count' },
      { to: 'gen_ai.usage.output_tokens', from: ['output_token_count'], as: 'count' },
      { to: 'gen_ai.usage.cache_read.input_tokens', from: ['cached_token_count'], as: 'count' },
      {
        to: 'gen_ai.usage.cache_write.input_tokens',
        from: ['cache_write_token_count'],
        as: 'count',
      },
      {
        to: 'gen_ai.usage.reasoning.output_tokens',
        from: ['reasoning_token_count'],
        as: 'count',
      },
    ],
  },
  'codex.websocket_event': {
    kind: 'event',
    only: { key: 'event.kind', value: 'response.completed' },
    attributes: [],
  },
  'codex.tool_result': {
    kind: 'tool',
    key: 'call_id',
    name: 'tool_name',
    attributes: CODEX_TOOL,
  },
  'codex.tool_decision': {
    role: 'update',
    kind: 'tool',
    key: 'call_id',
    name: 'tool_name',
    attributes: CODEX_TOOL,
    failure: { key: 'decision', values: ['denied', 'abort', 'reject'] },
  },
};

/** The rule for all other events of a source. */
export const OTHER_EVENT: EventRule = { kind: 'event', attributes: [] };

/** Counts of tokens that Claude Code reports beside its input; by the conventions they are part of it. */
export const INPUT_PARTS = {
  event: 'claude_code.api_request',
  side: 'gen_ai.usage.input_tokens',
  parts: ['gen_ai.usage.cache_read.input_tokens', 'gen_ai.usage.cache_creation.input_tokens'],
} as const;

/** Texts in place of a content that the client keeps to itself. */
export const WITHHELD: ReadonlySet<string> = new Set(['<REDACTED>', '[REDACTED]']);
export const PROMPT_LENGTH_KEY = 'prompt_length';

/** The prefix of the events of OpenTelemetry's GenAI conventions. */
export const GENAI_PREFIX = 'gen_ai.';
/** Its attributes are those of a span. */
export const OPERATION_DETAILS = 'gen_ai.client.inference.operation.details';
/**
 * The scopes whose spans have all of such a record: those of OpenLIT, of which its JS client has a name and its Python client a beginning,
 * and that of Copilot Chat in VS Code. OpenLIT sends the record of a stream without the ids of its span, and Copilot Chat those of the span around
 * the call or none.
 */
export const REPEATING_SCOPES = {
  names: ['openlit', 'copilot-chat'],
  beginning: 'openlit.',
} as const;
/** It becomes an observation below the evaluated one. */
export const EVALUATION_RESULT = 'gen_ai.evaluation.result';
/** The members of an evaluation's output, with their attributes. */
export const EVALUATION_OUTPUT = {
  score: 'gen_ai.evaluation.score.value',
  label: 'gen_ai.evaluation.score.label',
  explanation: 'gen_ai.evaluation.explanation',
} as const;

/** Events of the conventions that are observations of their own if they have no span. */
export const INSTANT_EVENTS: ReadonlySet<string> = new Set([OPERATION_DETAILS, EVALUATION_RESULT]);
