/**
 * The attributes of spans that give the details of an observation, as data; see `attributes.ts`. Every list is in order of
 * precedence. The metadata keeps the attributes too.
 */

const TEXTS = {
  provider: [
    'gen_ai.provider.name',
    'gen_ai.system',
    'llm.provider',
    'llm.system',
    'ai.model.provider',
    'langsmith.metadata.ls_provider',
  ],
  environment: [
    'langfuse.environment',
    'deployment.environment.name',
    'deployment.environment',
    'langsmith.metadata.environment',
    'environment',
  ],
  release: ['langfuse.release', 'service.version', 'langsmith.metadata.release', 'release'],
  promptName: [
    'langfuse.observation.prompt.name',
    'gen_ai.prompt.name',
    'langsmith.metadata.prompt_name',
    'prompt_name',
  ],
  promptVersion: [
    'langfuse.observation.prompt.version',
    'gen_ai.prompt.version',
    'langsmith.metadata.prompt_version',
    'prompt_version',
  ],
  tool: ['gen_ai.tool.name', 'tool.name', 'ai.toolCall.name'],
  /** An instant in ISO 8601, with or without the quotes of JSON. */
  firstToken: ['langfuse.observation.completion_start_time'],
} as const;

const TAGS = ['tag.tags', 'langfuse.trace.tags', 'langsmith.span.tags', 'tags'] as const;

/** Times to the first token, with the milliseconds of their unit. */
const TTFT = [
  { key: 'gen_ai.response.time_to_first_chunk', unitMs: 1000 },
  { key: 'ai.response.msToFirstChunk', unitMs: 1 },
] as const;

/** Amounts in USD. */
const COSTS = {
  total: [
    'gen_ai.usage.cost',
    'llm.cost.total',
    'llm.usage.total_cost',
    'gen_ai.usage.total_cost',
    'langsmith.metadata.total_cost',
  ],
  input: ['llm.cost.prompt', 'gen_ai.usage.input_cost'],
  output: ['llm.cost.completion', 'gen_ai.usage.output_cost'],
} as const;
export type CostPart = keyof typeof COSTS;

/** Attributes whose value is a JSON object of amounts in USD, as text. */
const COST_OBJECTS = [
  'langfuse.observation.cost_details',
  'langsmith.usage_metadata',
  'gen_ai.usage.cost_details',
] as const;

/** Names of amounts in such objects. */
export const COST_NAMES: ReadonlyMap<string, CostPart> = new Map([
  ['input', 'input'],
  ['input_cost', 'input'],
  ['output', 'output'],
  ['output_cost', 'output'],
  ['total', 'total'],
  ['total_cost', 'total'],
]);

export type DetailText = keyof typeof TEXTS;

/** A detail that an attribute can give. `rank` is its place in its list. */
export type DetailRule =
  | { readonly role: 'detail'; readonly detail: DetailText; readonly rank: number }
  | { readonly role: 'tags'; readonly rank: number }
  | { readonly role: 'ttft'; readonly rank: number; readonly unitMs: number }
  | { readonly role: 'cost'; readonly part: CostPart; readonly rank: number }
  | { readonly role: 'costs'; readonly rank: number };

/** Each attribute with its rule; an attribute may have several. */
export function* detailRules(): Generator<[key: string, rule: DetailRule], void> {
  for (const [detail, keys] of Object.entries(TEXTS) as [DetailText, readonly string[]][]) {
    for (const [rank, key] of keys.entries()) yield [key, { role: 'detail', detail, rank }];
  }
  for (const [rank, key] of TAGS.entries()) yield [key, { role: 'tags', rank }];
  for (const [rank, { key, unitMs }] of TTFT.entries()) yield [key, { role: 'ttft', rank, unitMs }];
  for (const [part, keys] of Object.entries(COSTS) as [CostPart, readonly string[]][]) {
    for (const [rank, key] of keys.entries()) yield [key, { role: 'cost', part, rank }];
  }
  for (const [rank, key] of COST_OBJECTS.entries()) yield [key, { role: 'costs', rank }];
}
