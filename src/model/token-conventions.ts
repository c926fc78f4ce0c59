/**
 * The part of the conventions about tokens, as data; see conventions.ts.
 *
 * The kinds of tokens are the names of an observation's counts, whatever the convention. Cached and cache-write tokens are part
 * of the input, tokens of reasoning are part of the output, and so are the modalities.
 *
 * `attributes` hold one count. `names` are spellings of the kind in an object of counts: the usage of a native event or run,
 * and attributes with JSON.
 */
export const TOKEN_KINDS = {
  input_tokens: {
    attributes: [
      'gen_ai.usage.input_tokens',
      'gen_ai.usage.prompt_tokens',
      'llm.token_count.prompt',
      'ai.usage.inputTokens',
      'ai.usage.promptTokens',
      // Of embeddings, which have no other tokens.
      'ai.usage.tokens',
      'llm.usage.prompt_tokens',
      'braintrust.metrics.prompt_tokens',
    ],
    names: [
      ...['prompt_tokens', 'input', 'inputTokens', 'promptTokens'],
      ...['promptTokenCount', 'prompt_token_count'],
    ],
  },
  output_tokens: {
    attributes: [
      'gen_ai.usage.output_tokens',
      'gen_ai.usage.completion_tokens',
      'llm.token_count.completion',
      'ai.usage.outputTokens',
      'ai.usage.completionTokens',
      'llm.usage.completion_tokens',
      'braintrust.metrics.completion_tokens',
    ],
    names: [
      ...['completion_tokens', 'output', 'outputTokens', 'completionTokens'],
      ...['candidatesTokenCount', 'candidates_token_count'],
    ],
  },
  total_tokens: {
    attributes: [
      'gen_ai.usage.total_tokens',
      'llm.usage.total_tokens',
      'llm.token_count.total',
      'ai.usage.totalTokens',
      'braintrust.metrics.tokens',
    ],
    names: ['total', 'totalTokens', 'totalTokenCount', 'total_token_count'],
  },
  cached_tokens: {
    attributes: [
      'gen_ai.usage.cache_read.input_tokens',
      'gen_ai.usage.cache_read_input_tokens',
      'gen_ai.usage.cache_read_tokens',
      'gen_ai.usage.input_tokens.cached',
      'llm.token_count.prompt_details.cache_read',
      'ai.usage.cachedInputTokens',
      'ai.usage.inputTokenDetails.cacheReadTokens',
      'llm.usage.cache_read_input_tokens',
      'braintrust.metrics.prompt_cached_tokens',
    ],
    names: [
      'cache_read_input_tokens',
      'input_cached_tokens',
      'cached_input_tokens',
      'cache_read_tokens',
      'input_cache_read',
      'cachedInputTokens',
      'cachedContentTokens',
      'cachedContentTokenCount',
      'cached_content_token_count',
      'cached_content_tokens',
      'cached_modality_1',
      'cached_modality_TEXT',
      'cached_modality_text',
      'prompt_cached_tokens',
    ],
  },
  cache_write_tokens: {
    attributes: [
      'gen_ai.usage.cache_write.input_tokens',
      'gen_ai.usage.cache_creation.input_tokens',
      'gen_ai.usage.cache_creation_input_tokens',
      'gen_ai.usage.cache_write_input_tokens',
      'gen_ai.usage.cache_write_tokens',
      'gen_ai.usage.cache_creation_tokens',
      'gen_ai.usage.input_tokens.cache_write',
      'llm.token_count.prompt_details.cache_write',
      'ai.usage.inputTokenDetails.cacheWriteTokens',
      'llm.usage.cache_creation_input_tokens',
      'braintrust.metrics.prompt_cache_creation_tokens',
    ],
    names: [
      'cache_creation_input_tokens',
      'cache_write_input_tokens',
      'cache_creation_tokens',
      'input_cache_creation',
      'prompt_cache_creation_tokens',
    ],
  },
  /** Those of the cache-write tokens that last an hour, which have a price of their own. */
  cache_write_1h_tokens: {
    attributes: ['gen_ai.usage.details.ephemeral_1h_input_tokens'],
    names: [
      'ephemeral_1h_input_tokens',
      'ephemeral_1hr_input_tokens',
      'input_ephemeral_1h_input_tokens',
      'cache_creation_ephemeral_1h_input_tokens',
      'prompt_cache_creation_1h_tokens',
    ],
  },
  reasoning_tokens: {
    attributes: [
      'gen_ai.usage.reasoning.output_tokens',
      'gen_ai.usage.reasoning_tokens',
      'gen_ai.usage.thinking_tokens',
      'gen_ai.usage.output_tokens.reasoning',
      'llm.token_count.completion_details.reasoning',
      'ai.usage.reasoningTokens',
      'ai.usage.outputTokenDetails.reasoningTokens',
      'llm.usage.reasoning_tokens',
      'braintrust.metrics.completion_reasoning_tokens',
    ],
    names: [
      'reasoning_output_tokens',
      'output_reasoning_tokens',
      'output_reasoning',
      'reasoningTokens',
      'thoughtsTokens',
      'thoughtsTokenCount',
      'thoughts_token_count',
      'thoughts_tokens',
      'completion_reasoning_tokens',
    ],
  },
  input_audio_tokens: {
    attributes: [
      'gen_ai.usage.audio.input_tokens',
      'gen_ai.usage.audio_input_tokens',
      'llm.token_count.prompt_details.audio',
      'gen_ai.usage.details.audio_input_tokens',
    ],
    names: [
      'audio_input_tokens',
      'input_audio',
      'input_modality_4',
      'input_modality_AUDIO',
      'input_modality_audio',
    ],
  },
  output_audio_tokens: {
    attributes: [
      'gen_ai.usage.audio.output_tokens',
      'gen_ai.usage.audio_output_tokens',
      'llm.token_count.completion_details.audio',
      'gen_ai.usage.details.audio_output_tokens',
    ],
    names: [
      'audio_output_tokens',
      'output_audio',
      'output_modality_4',
      'output_modality_AUDIO',
      'output_modality_audio',
    ],
  },
  input_text_tokens: {
    attributes: ['gen_ai.usage.text.input_tokens'],
    names: ['input_modality_1', 'input_modality_TEXT', 'input_modality_text'],
  },
  output_text_tokens: {
    attributes: ['gen_ai.usage.text.output_tokens'],
    names: ['output_modality_1', 'output_modality_TEXT', 'output_modality_text'],
  },
  input_image_tokens: {
    attributes: ['gen_ai.usage.image.input_tokens'],
    names: ['input_modality_2', 'input_modality_IMAGE', 'input_modality_image'],
  },
  output_image_tokens: {
    attributes: ['gen_ai.usage.image.output_tokens'],
    names: ['output_modality_2', 'output_modality_IMAGE', 'output_modality_image'],
  },
  input_video_tokens: {
    attributes: ['gen_ai.usage.video.input_tokens'],
    names: ['input_modality_3', 'input_modality_VIDEO', 'input_modality_video'],
  },
  output_video_tokens: {
    attributes: ['gen_ai.usage.video.output_tokens'],
    names: ['output_modality_3', 'output_modality_VIDEO', 'output_modality_video'],
  },
} as const;

/**
 * The tokens of Anthropic's cache writes by how long they last, five minutes and an hour, as clients of LangChain, LangSmith and Langfuse
 * name them. Their sum are the cache-write tokens, unless a larger sum is sent.
 */
export const CACHE_WRITE_TIERS = [
  ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens'],
  // LangSmith's client for the Claude Agent SDK.
  ['ephemeral_5m_input_tokens', 'ephemeral_1hr_input_tokens'],
  ['input_ephemeral_5m_input_tokens', 'input_ephemeral_1h_input_tokens'],
  ['cache_creation_ephemeral_5m_input_tokens', 'cache_creation_ephemeral_1h_input_tokens'],
] as const;

/** The beginning of the names of Google's cached tokens by modality, whose sum are the cached tokens. */
export const CACHED_PARTS = 'cached_modality_';

/** Google's tokens of the results of its own tools, which it counts beside the input. */
export const TOOL_RESULTS = ['toolUsePromptTokenCount', 'tool_use_prompt_token_count'] as const;

/** The beginnings of the names of further counts that Langfuse leaves out of `input` and `output`: those of Google's modalities. */
export const PARTS_APART = {
  input_tokens: ['input_modality_'],
  output_tokens: ['output_modality_'],
} as const;

/** Objects of counts within an object of counts, with the kinds of tokens of their members. */
const INPUT_DETAILS = {
  cached_tokens: 'cached_tokens',
  cache_read: 'cached_tokens',
  cache_read_tokens: 'cached_tokens',
  cacheReadTokens: 'cached_tokens',
  cache_creation: 'cache_write_tokens',
  cache_write: 'cache_write_tokens',
  cache_write_tokens: 'cache_write_tokens',
  cacheWriteTokens: 'cache_write_tokens',
  cache_creation_tokens: 'cache_write_tokens',
  ephemeral_5m_input_tokens: 'cache_write_tokens',
  ephemeral_1h_input_tokens: 'cache_write_tokens',
  ephemeral_1hr_input_tokens: 'cache_write_tokens',
  audio: 'input_audio_tokens',
  audio_tokens: 'input_audio_tokens',
  text_tokens: 'input_text_tokens',
  image_tokens: 'input_image_tokens',
} as const;
const OUTPUT_DETAILS = {
  reasoning: 'reasoning_tokens',
  reasoning_tokens: 'reasoning_tokens',
  reasoningTokens: 'reasoning_tokens',
  audio: 'output_audio_tokens',
  audio_tokens: 'output_audio_tokens',
  text_tokens: 'output_text_tokens',
  image_tokens: 'output_image_tokens',
} as const;
/** A member of Anthropic's usage object. */
const CACHE_WRITES = {
  ephemeral_5m_input_tokens: 'cache_write_tokens',
  ephemeral_1h_input_tokens: 'cache_write_tokens',
} as const;
export const NESTED_COUNTS = {
  cache_creation: CACHE_WRITES,
  input_token_details: INPUT_DETAILS,
  input_tokens_details: INPUT_DETAILS,
  prompt_tokens_details: INPUT_DETAILS,
  output_token_details: OUTPUT_DETAILS,
  output_tokens_details: OUTPUT_DETAILS,
  completion_tokens_details: OUTPUT_DETAILS,
  inputTokenDetails: INPUT_DETAILS,
  outputTokenDetails: OUTPUT_DETAILS,
  // The models of the Vercel AI SDK 6; its own usage has a count of the same name.
  inputTokens: {
    total: 'input_tokens',
    cacheRead: 'cached_tokens',
    cacheWrite: 'cache_write_tokens',
  },
  outputTokens: { total: 'output_tokens', reasoning: 'reasoning_tokens' },
  // LangWatch.
  value: {
    promptTokens: 'input_tokens',
    completionTokens: 'output_tokens',
    prompt_tokens: 'input_tokens',
    completion_tokens: 'output_tokens',
  },
} as const;

/** The attribute whose counts exclude each other: its input is without cached tokens and audio, its output without reasoning and audio. */
export const LANGFUSE_USAGE = 'langfuse.observation.usage_details';

/** Attributes with an object of counts, as JSON or as a kvlist. */
export const USAGE_OBJECTS = [
  LANGFUSE_USAGE,
  'langsmith.usage_metadata',
  'langsmith.metadata.usage_metadata',
  'mlflow.chat.tokenUsage',
  // LiteLLM, as Python prints it.
  'metadata.usage_object',
  'langwatch.metrics',
  'braintrust.metrics',
  // Logfire, as the provider sent it. Only its attributes have the tokens of the cache in the input.
  'gen_ai.usage.raw',
] as const;

/** The objects in the outputs of Haystack's generators and embedders, of which the first one counts. */
const HAYSTACK_META = [['replies', '0', 'meta'], ['meta', '0'], ['meta']];

/**
 * Attributes whose JSON, the outputs of a model call, has an object with the tokens (a member of `usage`), the `model` or both, by the
 * places of that object. It counts only in a model call, because the outputs of the spans around it repeat it. Its tokens count if no
 * attribute has any; with `precedes`, each kind of them precedes that of an attribute.
 */
export const CALLS_IN_OUTPUTS = {
  'genkit:output': { places: [[]], usage: ['usage'], form: 'genkit' },
  'haystack.component.output': { places: HAYSTACK_META, usage: ['usage'], form: 'anthropic' },
  'haystack.agent.step.llm.output': { places: HAYSTACK_META, usage: ['usage'], form: 'anthropic' },
  // The attributes of Google ADK have the tokens of the prompt and of the answer only: neither thoughts nor cached tokens nor a total.
  'gcp.vertex.agent.llm_response': {
    places: [[]],
    usage: ['usageMetadata', 'usage_metadata'],
    form: 'included',
    precedes: true,
  },
} as const;

/**
 * The beginnings of scopes whose input excludes the tokens of the cache, because they pass on the counts of Amazon Bedrock or Anthropic:
 * those of OpenTelemetry, OpenLLMetry and OpenLIT.
 */
export const CACHE_APART = [
  'opentelemetry.instrumentation.botocore.bedrock',
  'opentelemetry.instrumentation.bedrock',
  ...(['openlit.instrumentation.bedrock', 'openlit.instrumentation.anthropic'] as const),
  ...(['@openlit/instrumentation-bedrock', '@openlit/instrumentation-anthropic'] as const),
] as const;

/**
 * A scope whose input excludes the tokens of the cache for some providers: Pipecat adds them to its total only, which it does not
 * send.
 */
export const CACHE_APART_OF = {
  scope: 'pipecat',
  providers: ['anthropic', 'aws.bedrock'],
} as const;

/** Attributes with the details of one side, as JSON or as Python prints them, by the name of their object. */
export const USAGE_DETAILS = {
  'gen_ai.usage.input_token_details': 'input_token_details',
  'gen_ai.usage.output_token_details': 'output_token_details',
} as const;

/** Counts of pydantic-ai, `gen_ai.usage.details.NAME`, with the names of `TOKEN_KINDS`. */
export const DETAILED_USAGE = 'gen_ai.usage.details.';
