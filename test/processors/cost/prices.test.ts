import t from 'tap';
import { config } from '../../../processors/cost/config.ts';
import { createPricing } from '../../../processors/cost/prices.ts';
import type { PricedCall } from '../../../src/store/pricing.ts';

const AT = Date.parse('2026-06-01T12:00:00Z');
const MILLION = { input_tokens: 1_000_000, output_tokens: 1_000_000 };
const USD = 1e9;

function call(fields: Partial<PricedCall>): PricedCall {
  return {
    model: 'gpt-4o',
    provider: 'openai',
    usage: MILLION,
    source: 'otlp',
    at: AT,
    ...fields,
  };
}

/** The total in USD of one call under these configured prices. */
function totalOf(prices: readonly object[], fields: Partial<PricedCall>): unknown {
  const cost = createPricing({ prices })(call(fields));
  return typeof cost === 'object' ? cost.total / USD : cost;
}

t.test('has bundled prices by model and provider', async (t) => {
  const pricing = createPricing({});
  t.same(pricing(call({})), {
    input: 2.5 * USD,
    output: 10 * USD,
    total: 12.5 * USD,
    source: 'computed',
  });
  const same = [
    { model: 'GPT-4o' },
    { provider: undefined },
    { provider: 'openai.chat' },
    { provider: 'az.ai.openai' },
    { provider: 'unheard-of' },
    { model: 'openai/gpt-4o', provider: 'openrouter-like' },
  ];
  for (const fields of same) {
    t.match(pricing(call(fields)), { total: 12.5 * USD }, JSON.stringify(fields));
  }
  const bedrock = 'us.anthropic.claude-sonnet-4-20250514-v1:0';
  const ofBedrock = pricing(call({ model: bedrock, provider: 'aws.bedrock' }));
  t.match(ofBedrock, { source: 'computed' });
  for (const provider of ['strands-agents', undefined]) {
    t.same(pricing(call({ model: bedrock, provider })), ofBedrock, 'the id names the provider');
  }
  const arn = `arn:aws:bedrock:us-east-1:1:inference-profile/${bedrock}`;
  t.same(pricing(call({ model: arn, provider: undefined })), ofBedrock);
  t.equal(pricing(call({ model: bedrock })), 'unknown_price', 'OpenAI has no such model');
  t.match(pricing(call({ model: 'models/gemini-2.5-pro', provider: 'google_genai' })), {
    source: 'computed',
  });
});

t.test('guesses no price of another provider', async (t) => {
  const pricing = createPricing({});
  t.equal(pricing(call({ model: 'deepseek-chat' })), 'unknown_price');
  t.equal(pricing(call({ model: 'no such model', provider: undefined })), 'unknown_price');
  t.equal(pricing(call({ model: '/', provider: undefined })), 'unknown_price');
  const routed = { model: 'a-router/gpt-4o', provider: 'anthropic' };
  t.equal(pricing(call(routed)), 'unknown_price', 'whose vendor is unknown');
});

t.test('prices no usage without input and output', async (t) => {
  t.equal(createPricing({})(call({ usage: { total_tokens: 5 } })), undefined);
  t.equal(createPricing({})(call({ usage: {}, model: 'no such model' })), undefined);
});

t.test('uses the price at the start of a call', async (t) => {
  const from = (day: string, input_mtok: number) => ({ model: 'm', from: day, input_mtok });
  const prices = [from('2026-06-01', 2), { model: 'm', input_mtok: 1 }, from('2026-07-01', 3)];
  const at = (time: string) => totalOf(prices, { model: 'm', at: Date.parse(time) });
  t.equal(at('2026-05-31T23:59:59.999Z'), 1);
  t.equal(at('2026-06-01T00:00:00Z'), 2);
  t.equal(at('2026-06-30T23:59:59.999Z'), 2);
  t.equal(at('2026-07-01T00:00:00Z'), 3);
  const later = [from('2026-07-01', 3)];
  t.equal(totalOf(later, { model: 'm' }), 'unknown_price');
});

t.test(
  'prefers exact names, then longer prefixes, then patterns, then bundled prices',
  async (t) => {
    const prices = [
      { model_matches: '^gpt', input_mtok: 1 },
      { model: 'gpt*', input_mtok: 2 },
      { model: 'GPT-4*', input_mtok: 3 },
      { model: 'gpt-4o', input_mtok: 4 },
      { model: 'gpt-4o', provider: 'Azure', input_mtok: 5 },
    ];
    const cost = (model: string, provider = 'openai', from = 0) =>
      totalOf(prices.slice(0, prices.length - from), { model, provider });
    t.equal(cost('gpt-4o'), 4);
    t.equal(cost('gpt-4o', 'azure'), 5);
    t.equal(cost('gpt-4o', 'azure', 2), 3);
    t.equal(cost('gpt-4o-mini'), 3);
    t.equal(cost('gpt-5'), 2);
    t.equal(cost('gpt-5', 'openai', 4), 1);
    t.equal(cost('gpt-4o', 'openai', 5), 12.5);
    t.equal(cost('claude-3'), 'unknown_price');
  },
);

t.test('prices cached tokens, reasoning and audio', async (t) => {
  const prices = [
    {
      model: 'm',
      input_mtok: 10,
      output_mtok: 20,
      cache_read_mtok: 1,
      cache_write_mtok: 12,
      cache_write_1h_mtok: 20,
      output_reasoning_mtok: 30,
      input_audio_mtok: 40,
      output_audio_mtok: 80,
    },
  ];
  const cost = (usage: Record<string, number>) => {
    const counts = Object.entries(usage).map(([name, count]) => [name, count * 1e6]);
    return totalOf(prices, { model: 'm', usage: Object.fromEntries(counts) });
  };
  const whole = { input_tokens: 10, output_tokens: 10 };
  t.equal(cost(whole), 300);
  t.equal(cost({ ...whole, cache_read_input_tokens: 4 }), 300 - 40 + 4);
  t.equal(cost({ ...whole, cache_creation_input_tokens: 4 }), 300 - 40 + 48);
  const written = { ...whole, cache_write_tokens: 4 };
  t.equal(cost({ ...written, cache_write_1h_tokens: 1 }), 300 - 40 + 36 + 20);
  t.equal(cost({ ...written, cache_write_1h_tokens: 5 }), 300 - 40 + 80, 'at most the whole');
  const heard = { ...written, cache_write_1h_tokens: 1, input_audio_tokens: 4 };
  t.equal(cost(heard), 300 - 40 + 36 + 20 - 40 + 160);
  t.equal(cost({ ...whole, reasoning_tokens: 4 }), 300 + 40);
  t.equal(cost({ ...whole, input_audio_tokens: 4 }), 300 - 40 + 160);
  t.equal(cost({ ...whole, output_audio_tokens: 4 }), 300 - 80 + 320);
  t.equal(cost({ ...whole, cached_tokens: 4, input_audio_tokens: 4 }), 300 - 80 + 4 + 160);
  t.equal(
    cost({ ...whole, cached_tokens: 8, input_audio_tokens: 4 }),
    300 - 80 + 8,
    'audio that the cached tokens contradict is priced as text',
  );
});

t.test(
  'prices cache writes of an hour as Anthropic does, and as others without such a price',
  async (t) => {
    const usage = {
      ...{ input_tokens: 200_000, output_tokens: 0, cache_write_tokens: 200_000 },
      cache_write_1h_tokens: 100_000,
    };
    const anthropic = { model: 'claude-sonnet-4-5', provider: 'anthropic', usage };
    t.equal(totalOf([], anthropic), 0.975);
    const model = { model: 'm', input_mtok: 1, cache_write_mtok: 2 };
    t.equal(totalOf([model], { model: 'm', usage }), 0.4);
    const hour = { ...model, cache_write_1h_mtok: 4 };
    t.equal(config.safeParse({ prices: [hour] }).success, true);
    const { cache_write_mtok: _, ...without } = hour;
    t.match(config.safeParse({ prices: [without] }).error?.issues, [
      { message: 'cache_write_1h_mtok needs cache_write_mtok' },
    ]);
  },
);

t.test('prices a tier exactly above its start', async (t) => {
  const price = { base: 1, tiers: [{ start: 200_000, price: 2 }] };
  const prices = [{ model: 'm', input_mtok: price }];
  const cost = (input_tokens: number) => totalOf(prices, { model: 'm', usage: { input_tokens } });
  t.equal(cost(200_000), 0.2);
  t.equal(cost(200_001), 0.400002);
});

t.test('rounds to 10⁻⁹ USD', async (t) => {
  const prices = [{ model: 'm', input_mtok: 0.0006, output_mtok: 0.0004 }];
  const usage = { input_tokens: 1, output_tokens: 1 };
  t.same(createPricing({ prices })(call({ model: 'm', usage })), {
    input: 1,
    output: 0,
    total: 1,
    source: 'computed',
  });
});

t.test('keeps its results when the look-ups of models are evicted', async (t) => {
  const pricing = createPricing({ max_models: 1 });
  for (let i = 0; i < 3; i++) {
    t.match(pricing(call({})), { total: 12.5 * USD });
    t.equal(pricing(call({ model: `unknown ${i}`, provider: undefined })), 'unknown_price');
  }
});

t.test('refuses a configured price with a mistake', async (t) => {
  const entries = [
    { input_mtok: 1 },
    { model: 'm', model_matches: 'm', input_mtok: 1 },
    { model: 'm' },
    { model: 'm', input_mtok: -1 },
    { model: 'm', input_mtok: 1, from: '2026-02-30' },
    { model: 'm', input_mtok: 1, from: '2026-1-1' },
    { model_matches: '[', input_mtok: 1 },
    { model: 'm', input_mtok: { base: 1, tiers: [] } },
  ];
  for (const entry of entries) {
    t.notOk(config.safeParse({ prices: [entry] }).success, JSON.stringify(entry));
  }
  t.ok(config.safeParse({ prices: [{ model: 'm', input_mtok: 0, from: '2024-02-29' }] }).success);
});
