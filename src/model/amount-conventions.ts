/** The part of the mapping for costs and times to the first token; see conventions.ts. */

/** A time to the first token, with the milliseconds of its unit. */
export type TimeToFirstToken = {
  readonly key: string;
  readonly unitMs: number;
  /** An instrumentation scope with another unit. */
  readonly except?: { readonly scope: string; readonly unitMs: number };
};

export const TTFT: readonly TimeToFirstToken[] = [
  { key: 'gen_ai.response.time_to_first_chunk', unitMs: 1000 },
  { key: 'gen_ai.client.operation.time_to_first_chunk', unitMs: 1000 },
  {
    key: 'gen_ai.server.time_to_first_token',
    unitMs: 1000,
    except: { scope: 'strands.telemetry.tracer', unitMs: 1 },
  },
  // vLLM.
  { key: 'gen_ai.latency.time_to_first_token', unitMs: 1000 },
  // Pipecat, of speech as well.
  { key: 'metrics.ttfb', unitMs: 1000 },
  { key: 'ai.response.msToFirstChunk', unitMs: 1 },
  { key: 'braintrust.metrics.time_to_first_token', unitMs: 1000 },
  { key: 'braintrust.metrics:time_to_first_token', unitMs: 1000 },
  // Copilot Chat in VS Code.
  { key: 'copilot_chat.time_to_first_token', unitMs: 1 },
  { key: 'ttft_ms', unitMs: 1 },
];

/** Amounts in USD. */
export const COSTS = {
  total: [
    'gen_ai.usage.cost',
    'gen_ai.cost.total_cost',
    'litellm.cost.total',
    'llm.cost.total',
    'llm.usage.total_cost',
    'gen_ai.usage.total_cost',
    'langsmith.metadata.total_cost',
    'operation.cost',
    'langwatch.metrics:value.cost',
    'langwatch.metrics:cost',
  ],
  input: [
    'gen_ai.cost.input_cost',
    'litellm.cost.input',
    'llm.cost.prompt',
    'gen_ai.usage.input_cost',
  ],
  output: [
    'gen_ai.cost.output_cost',
    'litellm.cost.output',
    'llm.cost.completion',
    'gen_ai.usage.output_cost',
  ],
} as const;

/** The beginnings of scopes whose spans have a total of 0 if the client does not know the price: those of OpenLIT. */
export const UNPRICED_AS_ZERO = ['@openlit/', 'openlit.'] as const;

/** The attribute whose amounts, of any names, are the total if it has none. */
export const LANGFUSE_COST = 'langfuse.observation.cost_details';

/** Attributes with an object of amounts in USD, as JSON or as a kvlist. */
export const COST_OBJECTS = [
  LANGFUSE_COST,
  'langsmith.usage_metadata',
  'langsmith.metadata.usage_metadata',
  'mlflow.llm.cost',
  'gen_ai.usage.cost_details',
] as const;

/** Names of amounts in such objects. */
export const COST_NAMES = {
  input: 'input',
  input_cost: 'input',
  output: 'output',
  output_cost: 'output',
  total: 'total',
  total_cost: 'total',
} as const satisfies Readonly<Record<string, keyof typeof COSTS>>;
