import { CALL_EVENTS } from './call-events.ts';
import type { ObservationKind } from './observation.ts';
import { OBSERVATION_KINDS } from './observation.ts';

/**
 * The mapping of the conventions, as data: from span attributes and the counts of clients to the fields of an
 * observation. Every list is in order of precedence: the first attribute with a non-empty value gives the field. The counts
 * of tokens are in token-conventions.ts, costs and times to the first token in amount-conventions.ts, the attributes with JSON in
 * json-conventions.ts, and the events of a call in call-events.ts. docs/conventions.md is generated from the five files.
 *
 * The conventions: tracectl's own six attributes, OpenTelemetry GenAI (current, deprecated, and its events),
 * OpenInference, OpenLLMetry (Traceloop), Vercel AI SDK, MLflow, Langfuse, LangSmith, Logfire (pydantic-ai), LiteLLM, Laminar,
 * Mastra, LangWatch, Braintrust, Sentry and others.
 */

/** Types of Mastra's spans, whose inputs and outputs have the type in their keys. Its spans of model calls and tools have those of OpenTelemetry GenAI. */
const MASTRA_TYPES = [
  ...['agent_run', 'agent_signal', 'model_generation', 'model_step', 'model_chunk'],
  ...['workflow_run', 'workflow_step', 'workflow_conditional', 'workflow_conditional_eval'],
  ...['workflow_parallel', 'workflow_loop', 'workflow_sleep', 'workflow_wait_event'],
  ...['processor_run', 'scorer_run', 'scorer_step', 'classifier_evaluation', 'memory_operation'],
  ...['rag_ingestion', 'rag_embedding', 'rag_vector_operation', 'rag_action', 'graph_action'],
  ...['client_tool_call', 'mcp_server_request', 'workspace_action', 'skill_action'],
  ...['skill_resolution', 'mapping', 'generic'],
];

/**
 * The attributes whose objects have members with fields, which the lists name as `metadata:NAME`, or `metadata:NAME.INNER` for a
 * member of a member. OpenInference's instrumentations pass on the metadata of LangChain: they leave the conversation in `session.id`
 * only if it has one of some names.
 */
export const MEMBER_KEYS = [
  'metadata',
  'braintrust.metadata',
  'braintrust.metrics',
  'braintrust.span_attributes',
  'langwatch.metrics',
] as const;

/** A key that ends in `.*` matches a numbered family, such as `llm.input_messages.0.message.role`. */
export const INPUTS = [
  'input',
  'llm.input_messages',
  'langfuse.observation.input',
  'input.value',
  'gen_ai.input.messages',
  'gen_ai.prompt',
  'gen_ai.prompt_json',
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
  // Spans of tools have the attribute of a model call, too: with `{}`.
  'gcp.vertex.agent.tool_call_args',
  'gcp.vertex.agent.llm_request',
  'pydantic_ai.all_messages',
  'all_messages_events',
  'tool_arguments',
  'prompt',
  'user_prompt',
  'gen_ai.retrieval.query.text',
  'gen_ai.memory.query.text',
  'reranker.query',
  'spring.ai.tool.call.arguments',
  'db.vector.query.content',
  'haystack.pipeline.input_data',
  'haystack.component.input',
  'haystack.agent.input',
  'haystack.agent.step.llm.input',
  'haystack.agent.step.tool.input',
  // LiveKit Agents.
  ...(['lk.pii.user_input', 'lk.user_input', 'lk.pii.chat_ctx', 'lk.chat_ctx'] as const),
  ...(['lk.pii.input_text', 'lk.input_text'] as const),
  ...MASTRA_TYPES.map((type) => `mastra.${type}.input`),
  'langwatch.input',
  ...(['braintrust.input_json', 'braintrust.input'] as const),
  // The input of a graph or swarm of Strands Agents for JavaScript.
  'gen_ai.agent.input',
  'langfuse.trace.input',
] as const;

export const OUTPUTS = [
  'output',
  'llm.output_messages',
  'langfuse.observation.output',
  'output.value',
  'gen_ai.output.messages',
  'gen_ai.completion',
  'gen_ai.completion_json',
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
  'gcp.vertex.agent.tool_response',
  'gcp.vertex.agent.llm_response',
  'retrieval.documents.*',
  'reranker.output_documents.*',
  'gen_ai.retrieval.documents',
  'gen_ai.memory.records',
  'tool_response',
  'final_result',
  'spring.ai.tool.call.result',
  'db.vector.query.response.documents',
  'crewai.crew.result',
  'haystack.pipeline.output_data',
  'haystack.component.output',
  'haystack.agent.output',
  'haystack.agent.step.llm.output',
  'haystack.agent.step.tool.output',
  ...(['lk.pii.response.text', 'lk.response.text'] as const),
  ...(['lk.pii.response.function_calls', 'lk.response.function_calls'] as const),
  ...(['lk.pii.user_transcript', 'lk.user_transcript'] as const),
  ...MASTRA_TYPES.map((type) => `mastra.${type}.output`),
  'langwatch.output',
  ...(['braintrust.output_json', 'braintrust.output'] as const),
  'langfuse.trace.output',
] as const;

/** Numbered families that repeat an attribute with JSON: the metadata has them only without that attribute. */
export const REPEATED_FAMILIES = [
  { family: 'llm.input_messages.', of: 'input.value' },
  { family: 'llm.output_messages.', of: 'output.value' },
] as const;

/** Their presence also makes a span a generation. */
export const MODELS = [
  'langfuse.observation.model.name',
  'gen_ai.response.model',
  'gen_ai.request.model',
  'ai.response.model',
  'ai.model.id',
  'llm.model_name',
  'embedding.model_name',
  'reranker.model_name',
  'langsmith.metadata.ls_model_name',
  'mlflow.llm.model',
  'llm.response.model',
  'llm.request.model',
  'braintrust.metadata.model',
  'braintrust.metadata:model',
  'model',
] as const;

/**
 * The value that Micrometer gives an attribute without one. Spring AI names the model of the answer so if a call has failed, beside the model that
 * was asked for.
 */
export const ABSENT_MODEL = 'none';

/** Models of agents, which make no model call themselves. */
export const AGENT_MODELS = ['model_name'] as const;

/**
 * The attribute with the name of a Genkit action. That of a model call is its model behind the name of a plugin, which is the provider:
 * `openai/gpt-4o-mini`.
 */
export const QUALIFIED_MODEL = 'genkit:name';
/** Its member `model` is that of a call without an answer: OpenInference for OpenAI names only the model of the answer. */
export const REQUEST_PARAMETERS = 'llm.invocation_parameters';

export const SESSIONS = [
  'langfuse.session.id',
  'langfuse.trace.session.id',
  'session.id',
  'gen_ai.conversation.id',
  'ai.telemetry.metadata.sessionId',
  'langsmith.metadata.session_id',
  'langsmith.metadata.thread_id',
  'langsmith.metadata.conversation_id',
  'traceloop.association.properties.session_id',
  // A thread of LangGraph, of which LangChain makes metadata.
  'traceloop.association.properties.thread_id',
  'lmnr.association.properties.session_id',
  'mlflow.trace.session',
  'gcp.vertex.agent.session_id',
  'spring.ai.chat.client.conversation.id',
  'mastra.metadata.sessionId',
  'langwatch.thread.id',
  // Pipecat.
  'conversation.id',
  'thread_id',
  'metadata:session_id',
  'metadata:thread_id',
  'metadata:conversation_id',
  'braintrust.metadata.session_id',
  'braintrust.metadata:session_id',
  'braintrust.metadata:thread_id',
  'braintrust.metadata:conversation_id',
] as const;

export const USERS = [
  'langfuse.user.id',
  'langfuse.trace.user.id',
  'user.id',
  'enduser.id',
  'ai.telemetry.metadata.userId',
  'traceloop.association.properties.user_id',
  'lmnr.association.properties.user_id',
  'langsmith.metadata.user_id',
  'mlflow.trace.user',
  'mastra.metadata.userId',
  'langwatch.user.id',
  'metadata:user_id',
  'braintrust.metadata.user_id',
  'braintrust.metadata:user_id',
  'metadata.user_api_key_end_user_id',
] as const;

/** Attributes of a span precede those of its exception events; the status message is last. */
export const ERROR_MESSAGES = [
  'error',
  'exception.message',
  'event:exception.message',
  'error.message',
] as const;
export const ERROR_TYPES = ['exception.type', 'event:exception.type', 'error.type'] as const;
export const ERROR_STACKTRACES = [
  'exception.stacktrace',
  'event:exception.stacktrace',
  'error.stacktrace',
  'error.stack',
] as const;

/** A span with this value has failed, whatever its status; the message is that of its error. */
export const FAILURE = {
  key: 'langfuse.observation.level',
  value: 'ERROR',
  message: 'langfuse.observation.status_message',
} as const;

/** Values are compared in lower case, without the quotes that MLflow adds. */
export type KindRule = {
  readonly key: string;
  readonly values?: Readonly<Record<string, ObservationKind>>;
  /** The kind of every span with this attribute, whatever its value. */
  readonly presence?: ObservationKind;
  /** The kinds of values that end in a text, if no value equals. */
  readonly endings?: Readonly<Record<string, ObservationKind>>;
  /** The value is an operation id of the Vercel AI SDK, such as `ai.generateText.doGenerate`. */
  readonly vercel?: boolean;
};

const SAME = Object.fromEntries(OBSERVATION_KINDS.map((kind) => [kind, kind]));

const BRAINTRUST_KINDS = {
  llm: 'generation',
  tool: 'tool',
  task: 'chain',
  eval: 'chain',
  function: 'span',
  score: 'evaluator',
} as const;

export const KINDS: readonly KindRule[] = [
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
    // OpenLLMetry calls every step of LlamaIndex a `task`, its model calls too: their other attributes decide.
    key: 'traceloop.span.kind',
    values: { ...SAME, workflow: 'chain', llm: 'generation' },
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
      invoke_graph: 'chain',
      invoke_swarm: 'chain',
      execute_node: 'chain',
      plan: 'chain',
      chain: 'chain',
      retrieval: 'retriever',
      search_memory: 'retriever',
      create_memory: 'span',
      update_memory: 'span',
      upsert_memory: 'span',
      delete_memory: 'span',
      create_memory_store: 'span',
      delete_memory_store: 'span',
    },
  },
  {
    key: 'mastra.span.type',
    values: {
      agent_run: 'agent',
      // The loop around the model calls, which are spans of their own.
      model_generation: 'chain',
      model_step: 'chain',
      workflow_run: 'chain',
      workflow_step: 'chain',
      workflow_conditional: 'chain',
      workflow_parallel: 'chain',
      workflow_loop: 'chain',
      client_tool_call: 'tool',
      scorer_run: 'evaluator',
      scorer_step: 'evaluator',
      classifier_evaluation: 'evaluator',
      rag_ingestion: 'chain',
      rag_embedding: 'embedding',
    },
  },
  {
    key: 'langwatch.span.type',
    values: {
      ...SAME,
      llm: 'generation',
      rag: 'retriever',
      evaluation: 'evaluator',
      workflow: 'chain',
      prompt: 'chain',
      unknown: 'span',
    },
  },
  { key: 'braintrust.span_attributes.type', values: BRAINTRUST_KINDS },
  { key: 'braintrust.span_attributes:type', values: BRAINTRUST_KINDS },
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
  {
    // Claude Code.
    key: 'span.type',
    values: {
      interaction: 'agent',
      llm_request: 'generation',
      tool: 'tool',
      'tool.execution': 'span',
      'tool.blocked_on_user': 'span',
    },
  },
  {
    key: 'ag2.usage.kind',
    values: {
      model_call: 'span',
      subtask: 'span',
      compaction: 'generation',
      aggregation: 'generation',
    },
  },
  {
    key: 'genkit:metadata:subtype',
    values: {
      flow: 'chain',
      prompt: 'chain',
      'executable-prompt': 'chain',
      model: 'generation',
      'background-model': 'generation',
      embedder: 'embedding',
      tool: 'tool',
      'tool.v2': 'tool',
      retriever: 'retriever',
      reranker: 'retriever',
      evaluator: 'evaluator',
      agent: 'agent',
    },
  },
  {
    key: 'haystack.component.type',
    values: { agent: 'agent' },
    endings: {
      generator: 'generation',
      embedder: 'embedding',
      retriever: 'retriever',
      ranker: 'retriever',
    },
  },
  { key: 'spring.ai.kind', values: { chat_client: 'chain', advisor: 'chain' } },
  { key: 'db.vector.query.top_k', presence: 'retriever' },
  { key: 'haystack.agent.step.llm.input', presence: 'generation' },
  { key: 'haystack.pipeline.max_runs_per_component', presence: 'chain' },
  { key: 'haystack.agent.step', presence: 'chain' },
  // The span of TanStack AI around its model calls, with their sums.
  { key: 'tanstack.ai.iterations', presence: 'chain' },
  { key: 'gen_ai.tool.name', presence: 'tool' },
  { key: 'gen_ai.tool.call.id', presence: 'tool' },
  { key: 'spring.ai.tool.definition.name', presence: 'tool' },
  { key: 'haystack.tool.name', presence: 'tool' },
  { key: 'haystack.agent.max_steps', presence: 'agent' },
  { key: 'agent_name', presence: 'agent' },
  // Its calls are log records, and its tools have a name of their own.
  { key: 'gen_ai.agent.name', values: { 'gemini-cli': 'chain' } },
  { key: 'embedding.model_name', presence: 'embedding' },
  { key: 'reranker.model_name', presence: 'retriever' },
  ...MODELS.map((key) => ({ key, presence: 'generation' }) as const),
];

/**
 * Values of attributes whose spans repeat the model and the tokens of another observation, so those of the span do not count. AG2 records the tokens
 * of each model call in a second span, which is no call; a record with another value is the only one of its tokens: those of a compaction, of
 * an aggregation or of the call within a task. Gemini CLI always sends the tokens of a call in a log record, which has no ids of the span, and
 * also in the span if `telemetry.traces` is on.
 */
export const USAGE_RECORDS = [
  { key: 'ag2.usage.kind', value: 'model_call' },
  { key: 'gen_ai.agent.name', value: 'gemini-cli' },
] as const;

export type EventRole = 'exception' | 'input' | 'output' | 'both' | 'token' | 'call';

/**
 * Events of a span that hold its inputs or outputs if no attribute does, its error, the time of its first token
 * (`token`), or several fields (`call`).
 */
export const EVENTS: Readonly<Record<string, EventRole>> = {
  exception: 'exception',
  'gen_ai.client.operation.exception': 'exception',
  'gen_ai.system.message': 'input',
  'gen_ai.user.message': 'input',
  'gen_ai.assistant.message': 'input',
  'gen_ai.tool.message': 'input',
  'gen_ai.content.prompt': 'input',
  'gen_ai.choice': 'output',
  'gen_ai.content.completion': 'output',
  'gen_ai.client.inference.operation.details': 'both',
  'First Token Stream Event': 'token',
  'gen_ai.content.completion.chunk': 'token',
  'llm.content.completion.chunk': 'token',
  'ai.stream.firstChunk': 'token',
  new_token: 'token',
  ...Object.fromEntries([...CALL_EVENTS.keys()].map((name) => [name, 'call' as const])),
};

/** The name of a trace whose root may never arrive, of spans that are made of log records. */
export const TRACE_NAME_KEY = 'tracectl.trace.name';

/** Details with a text. */
export const DETAIL_TEXTS = {
  provider: [
    // `gen_ai.system` is the name of LangChain beside it if the answer does not name the provider.
    'langsmith.metadata.ls_provider',
    'gen_ai.provider.name',
    'gen_ai.system',
    'gen_ai.model.provider',
    'llm.provider',
    'llm.system',
    'ai.model.provider',
    'mlflow.llm.provider',
    'metadata:ls_provider',
    'langfuse.observation.metadata.ls_provider',
    'braintrust.metadata.provider',
    'braintrust.metadata:provider',
  ],
  environment: [
    'langfuse.environment',
    'langfuse.trace.environment',
    'deployment.environment.name',
    'deployment.environment',
    'langsmith.metadata.environment',
    'environment',
  ],
  release: [
    'langfuse.release',
    'langfuse.trace.release',
    'service.version',
    'langsmith.metadata.release',
    'release',
  ],
  promptName: [
    'langfuse.observation.prompt.name',
    'gen_ai.prompt.name',
    'traceloop.prompt.key',
    'langsmith.metadata.prompt_name',
    'prompt_name',
  ],
  promptVersion: [
    'langfuse.observation.prompt.version',
    'gen_ai.prompt.version',
    'llm.prompt_template.version',
    'traceloop.prompt.version',
    'langsmith.metadata.prompt_version',
    'prompt_version',
  ],
  tool: [
    'gen_ai.tool.name',
    'tool.name',
    'ai.toolCall.name',
    'spring.ai.tool.definition.name',
    'haystack.tool.name',
  ],
  /** Spans with one response describe one call. */
  responseId: ['gen_ai.response.id', 'ai.response.id'],
  /** The name of the trace, if a client names it apart from its root. */
  traceName: ['langfuse.trace.name', TRACE_NAME_KEY],
  /** An instant in ISO 8601, with or without the quotes of JSON. */
  firstToken: ['langfuse.observation.completion_start_time', 'mastra.completion_start_time'],
  /** If the call is a stream; LiteLLM sends a time of the first token of any call. */
  streaming: ['llm.is_streaming'],
} as const;

/** An array, a JSON array, or a text with commas. */
export const TAGS = [
  'tag.tags',
  'langfuse.trace.tags',
  'langsmith.span.tags',
  'logfire.tags',
  'ai.telemetry.metadata.tags',
  'lmnr.association.properties.tags',
  'mastra.tags',
  'langwatch.labels',
  'braintrust.tags',
  'tags',
] as const;
