import t from 'tap';
import { tokensOf } from '../../../processors/cost/usage.ts';
import type { ObservationSource, TokenUsage } from '../../../src/model/observation.ts';

function inputOf(usage: TokenUsage, source: ObservationSource): number | undefined {
  return tokensOf({ usage, source })?.input;
}

t.test('reads every name of a count', async (t) => {
  const vocabularies: TokenUsage[] = [
    { input_tokens: 3, output_tokens: 2, cache_read_input_tokens: 1, reasoning_tokens: 1 },
    { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1, reasoning_output_tokens: 1 },
    { input: 3, output: 2, input_cached_tokens: 1, output_reasoning_tokens: 1 },
  ];
  for (const usage of vocabularies) {
    const tokens = tokensOf({ usage, source: 'otlp' });
    t.match(tokens, { input: 3, output: 2, cacheRead: 1, reasoning: 1 }, JSON.stringify(usage));
  }
  t.equal(tokensOf({ usage: { total_tokens: 3 }, source: 'otlp' }), undefined);
  t.match(tokensOf({ usage: { output_tokens: 3 }, source: 'otlp' }), { input: 0, output: 3 });
});

t.test('includes cached tokens in the input of spans and runs', async (t) => {
  const usage = { input_tokens: 10, output_tokens: 1, cache_read_input_tokens: 10 };
  t.equal(inputOf(usage, 'otlp'), 10);
  t.equal(inputOf(usage, 'runs'), 10);
  t.equal(inputOf({ ...usage, cache_read_input_tokens: 11 }, 'otlp'), 21, 'more than the input');
});

t.test('adds the cached tokens of Anthropic in native events to the input', async (t) => {
  const usage = { input_tokens: 10, output_tokens: 1, cache_creation_input_tokens: 3 };
  t.equal(inputOf({ ...usage, cache_read_input_tokens: 4 }, 'native'), 17);
  t.equal(inputOf({ ...usage, total_tokens: 11 }, 'native'), 10, 'the total excludes them');
  t.equal(inputOf({ input_tokens: 10, cached_tokens: 4 }, 'native'), 10, 'names of OpenAI');
});

t.test('lets a total decide', async (t) => {
  const usage = { input_tokens: 10, output_tokens: 5, cached_tokens: 4, reasoning_tokens: 2 };
  t.match(tokensOf({ usage: { ...usage, total_tokens: 15 }, source: 'otlp' }), {
    input: 10,
    output: 5,
  });
  t.match(tokensOf({ usage: { ...usage, total_tokens: 19 }, source: 'otlp' }), {
    input: 14,
    output: 5,
  });
  t.match(tokensOf({ usage: { ...usage, total_tokens: 17 }, source: 'otlp' }), {
    input: 10,
    output: 7,
  });
  t.match(tokensOf({ usage: { ...usage, total_tokens: 21 }, source: 'otlp' }), {
    input: 14,
    output: 7,
  });
});

t.test('adds tokens of reasoning to a smaller output', async (t) => {
  const usage = { input_tokens: 1, output_tokens: 2, reasoning_tokens: 2 };
  t.match(tokensOf({ usage, source: 'otlp' }), { output: 2 });
  const apart = { ...usage, reasoning_tokens: 3 };
  t.match(tokensOf({ usage: apart, source: 'otlp' }), { output: 5 });
});
