/** The part of the conventions about attributes whose texts are JSON, as data; see conventions.ts. */

/**
 * Attributes whose text is JSON by their convention, so that the metadata has the value. `values`: any JSON value; otherwise
 * objects, arrays and quoted texts, because the convention also has plain texts there. A key that ends in `.` is a prefix.
 */
export const JSON_TEXTS: readonly { readonly key: string; readonly values?: boolean }[] = [
  { key: 'mlflow.', values: true },
  { key: 'langfuse.observation.metadata.' },
  { key: 'langfuse.trace.metadata.' },
  { key: 'metadata' },
  // Laminar sends most values as JSON, and some texts as they are.
  { key: 'lmnr.span.input' },
  { key: 'lmnr.span.output' },
  ...[
    'langfuse.observation.metadata',
    'langfuse.observation.model.parameters',
    'langfuse.observation.usage_details',
    'langfuse.observation.cost_details',
    'langfuse.trace.metadata',
    'langfuse.trace.tags',
    'langfuse.trace.public',
    'langsmith.usage_metadata',
    'langsmith.metadata.usage_metadata',
    'llm.invocation_parameters',
    'llm.prompt_template.variables',
    'gen_ai.system_instructions',
    'traceloop.entity.input',
    'traceloop.entity.output',
    'genkit:input',
    'genkit:output',
    'genkit:metadata:context',
    'gen_ai.tool.definitions',
    'model_request_parameters',
    'logfire.json_schema',
    'ai.prompt.toolChoice',
    'ai.response.providerMetadata',
    'ai.toolCall.result',
    'ai.value',
    'gen_ai.agent.input',
    'gen_ai.usage.raw',
    'braintrust.input_json',
    'braintrust.output_json',
    'braintrust.metadata',
    'braintrust.metrics',
    'braintrust.span_attributes',
    'braintrust.context_json',
  ].map((key) => ({ key, values: true })),
];

/** Attributes with a JSON object of LangWatch, whose member `value` is the value, and `type` its type: `{"type":"text","value":"hi"}`. */
export const TYPED_VALUES = ['langwatch.input', 'langwatch.output'] as const;

/** Attributes with a list of texts, each of which is JSON by their convention: the values that the Vercel AI SDK embeds. */
export const JSON_LISTS = ['ai.values'] as const;

/** Attributes that say whether the text of another one is JSON. */
export const MIME_TYPES = [
  { key: 'input.mime_type', of: 'input.value' },
  { key: 'output.mime_type', of: 'output.value' },
] as const;
