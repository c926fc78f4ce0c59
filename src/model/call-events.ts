/** An event of a span that describes the call of the span, so that its attributes give fields of it. */
export type CallEvent = {
  /** The value of `gen_ai.operation.name` that says the same. */
  readonly operation: string;
  /** Attributes of the event, with those of a span that they are read as. */
  readonly attributes?: ReadonlyMap<string, string>;
  /** The beginnings of attributes that are the members of an object of counts; the first one with a count is read. */
  readonly usage?: readonly string[];
  /** The first one with a value has them. `NAME.*` is an object of all attributes that begin so. */
  readonly inputs?: readonly string[];
  readonly outputs?: readonly string[];
};

const REQUEST = new Map([
  ['model_dict.model', 'gen_ai.request.model'],
  ['model_dict.model_name', 'gen_ai.request.model'],
]);

/** The answer as the SDK of the provider has it. */
const RESPONSE = {
  attributes: new Map([
    ['response.raw.model', 'gen_ai.response.model'],
    ['response.raw.id', 'gen_ai.response.id'],
  ]),
  usage: ['response.raw.usage.', 'response.raw.usage_metadata.'],
};

const SEARCHED = ['str_or_query_bundle', 'str_or_query_bundle.query_str'];
const ASKED = ['query', 'query.query_str'];

/** Those of LlamaIndex's own instrumentation, whose spans have no attributes of a call. */
export const CALL_EVENTS: ReadonlyMap<string, CallEvent> = new Map<string, CallEvent>([
  ['LLMChatStartEvent', { operation: 'chat', attributes: REQUEST, inputs: ['messages'] }],
  [
    'LLMChatEndEvent',
    { operation: 'chat', ...RESPONSE, inputs: ['messages'], outputs: ['response.message.*'] },
  ],
  ['LLMCompletionStartEvent', { operation: 'chat', attributes: REQUEST, inputs: ['prompt'] }],
  [
    'LLMCompletionEndEvent',
    { operation: 'chat', ...RESPONSE, inputs: ['prompt'], outputs: ['response.text'] },
  ],
  ['EmbeddingStartEvent', { operation: 'embeddings', attributes: REQUEST }],
  ['EmbeddingEndEvent', { operation: 'embeddings', inputs: ['chunks'] }],
  ['RetrievalStartEvent', { operation: 'retrieval', inputs: SEARCHED }],
  ['RetrievalEndEvent', { operation: 'retrieval', inputs: SEARCHED, outputs: ['nodes'] }],
  ['QueryStartEvent', { operation: 'chain', inputs: ASKED }],
  ['QueryEndEvent', { operation: 'chain', inputs: ASKED, outputs: ['response.response'] }],
]);
