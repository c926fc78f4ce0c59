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
export const EMBEDDING_USAGE = { input_tokens: 5, total_tokens: 5 };
