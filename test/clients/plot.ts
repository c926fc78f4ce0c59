import type { ExpectedTrace } from './compare.ts';

/**
 * The plot of every program: a question, a model call that asks for a tool, the tool, and a streamed answer; an embedding
 * of the answer, and a call that fails. The fake model server gives the answers and counts.
 */
export const QUESTION = 'How warm is it in Oslo?';
export const ANSWER_PARTS: readonly string[] = ['It is ', '4 degrees', ' in Oslo.'];
export const ANSWER = ANSWER_PARTS.join('');
export const CITY = { city: 'Oslo' };
export const WEATHER = { city: 'Oslo', celsius: 4 };

export const MODEL = 'gpt-4o-mini';
export const ANSWERING_MODEL = 'gpt-4o-mini-2024-07-18';
export const EMBEDDING_MODEL = 'text-embedding-3-small';
export const MISSING_MODEL = 'no-such-model';
export const NOT_FOUND = /The model `no-such-model` does not exist/;

/** Of a call, as tracectl names the counts. */
export const CALL_USAGE = {
  input_tokens: 21,
  output_tokens: 9,
  total_tokens: 30,
  cached_tokens: 8,
  reasoning_tokens: 4,
};
export const TWO_CALLS_USAGE = {
  input_tokens: 42,
  output_tokens: 18,
  total_tokens: 60,
  cached_tokens: 16,
  reasoning_tokens: 8,
};
export const CLAUDE = 'claude-sonnet-5';
/** Of a call, as Anthropic's API counts it: the input without its cached parts. */
export const ANTHROPIC_USAGE = {
  input_tokens: 13,
  cache_read: 5,
  cache_write: 3,
  output_tokens: 9,
};
/** The same, as tracectl names and counts it. */
export const ANTHROPIC_CALL_USAGE = {
  input_tokens: 21,
  output_tokens: 9,
  total_tokens: 30,
  cached_tokens: 5,
  cache_write_tokens: 3,
};
export const TWO_ANTHROPIC_CALLS_USAGE = {
  input_tokens: 42,
  output_tokens: 18,
  total_tokens: 60,
  cached_tokens: 10,
  cache_write_tokens: 6,
};
export const EMBEDDING_USAGE = { input_tokens: 5, total_tokens: 5 };
/** Of a client that sends no details. */
export const COUNTED_USAGE = { input_tokens: 21, output_tokens: 9, total_tokens: 30 };

export const WITH_SESSION = { session: 'session-1', user: 'user-1', tags: ['demo'] };

/** A message of the GenAI conventions. */
export function said(role: string, content: string) {
  return [{ role, parts: [{ type: 'text', content }] }];
}

/** The trace of the programs that set attributes by hand. */
export function openTelemetryTrace(errorType: string): ExpectedTrace {
  return {
    name: 'answer',
    ...WITH_SESSION,
    usage: COUNTED_USAGE,
    tree: [
      {
        name: 'answer',
        kind: 'agent',
        inputs: QUESTION,
        outputs: ANSWER,
        ...WITH_SESSION,
        metadata: { 'service.name': 'weather' },
        children: [
          {
            name: `chat ${MODEL}`,
            kind: 'generation',
            model: MODEL,
            provider: 'openai',
            usage: COUNTED_USAGE,
            inputs: said('user', QUESTION),
            outputs: said('assistant', ANSWER),
          },
          {
            name: 'execute_tool get_weather',
            kind: 'tool',
            tool: 'get_weather',
            error: { type: errorType, message: 'no such city', stacktrace: new RegExp(errorType) },
          },
        ],
      },
    ],
  };
}
