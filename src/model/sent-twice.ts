/** The environment variables that choose the paths of a LangSmith client, which records them in the metadata of its runs. */
export const TRACING_VARIABLES = [
  'LANGSMITH_OTEL_ENABLED',
  'LANGSMITH_OTEL_ONLY',
  'LANGSMITH_TRACING_MODE',
] as const;
export type TracingVariable = (typeof TRACING_VARIABLES)[number];

/** The instrumentation scope of the client's spans. */
export const LANGSMITH_SCOPE = 'langsmith';

/** The recorded variables. Absent ones are not set. */
export type TracingVariables = { [Name in TracingVariable]?: string | undefined };

/** Whether the client sends each run twice: as a run, and as a span. The rule is the client's (0.15.0). */
export function isSentTwice(variables: TracingVariables): boolean {
  const mode = variables.LANGSMITH_TRACING_MODE?.trim() ?? '';
  if (mode !== '') return mode.toLowerCase() === 'hybrid';
  return isTrue(variables.LANGSMITH_OTEL_ENABLED) && !isTrue(variables.LANGSMITH_OTEL_ONLY);
}

function isTrue(text: string | undefined): boolean {
  return text !== undefined && (text.toLowerCase() === 'true' || text === '1');
}
