/** The attribute whose counts exclude each other. */
export const LANGFUSE_USAGE = 'langfuse.observation.usage_details';

const SIDES = [
  {
    names: ['input', 'input_tokens'],
    parts: ['input_cached_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'],
  },
  { names: ['output', 'output_tokens'], parts: ['output_reasoning_tokens', 'reasoning_tokens'] },
] as const;

/**
 * Langfuse's counts with cached tokens added to the input and tokens of reasoning to the output, of which they are parts in
 * every other vocabulary. They are included already if the total is the sum of input and output.
 */
export function withParts(counts: object): object {
  const given = new Map<string, unknown>(Object.entries(counts));
  const count = (name: string): number => {
    const value = given.get(name);
    return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0;
  };
  const sum = SIDES.reduce((all, { names }) => all + firstOf(names.map(count)), 0);
  const total = count('total') + count('total_tokens');
  if (total === sum) return counts;
  const whole = new Map(given);
  for (const { names, parts } of SIDES) {
    const side = names.find((name) => count(name) > 0);
    if (side === undefined) continue;
    whole.set(
      side,
      parts.reduce((all, part) => all + count(part), count(side)),
    );
  }
  return Object.fromEntries(whole);
}

function firstOf(counts: readonly number[]): number {
  return counts.find((count) => count > 0) ?? 0;
}
