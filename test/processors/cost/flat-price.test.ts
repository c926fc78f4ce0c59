import assert from 'node:assert/strict';
import { calcPrice, type ModelInfo, type Usage } from '@pydantic/genai-prices';
import t from 'tap';
import { flatCostOf, flatPriceOf } from '../../../processors/cost/flat-price.ts';
import { createPricing } from '../../../processors/cost/prices.ts';

const MODEL = 'model';

const NONE = {
  ...{ input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cacheWriteHour: 0, reasoning: 0 },
  ...{ inputAudio: 0, outputAudio: 0 },
};

/** The cost by the library. */
function byLibrary(prices: ModelInfo['prices'], tokens: typeof NONE): unknown {
  const usage: Usage = {
    input_tokens: tokens.input,
    output_tokens: tokens.output,
    cache_read_tokens: tokens.cacheRead,
    cache_write_tokens: tokens.cacheWrite,
    cache_write_1h_tokens: tokens.cacheWriteHour,
    output_reasoning_tokens: tokens.reasoning,
  };
  const models = [{ id: MODEL, match: { equals: MODEL }, prices }];
  const provider = { id: 'test', name: 'test', api_pattern: '', models };
  const found = calcPrice(usage, MODEL, { provider });
  if (found === null) return undefined;
  const { input_price, output_price, total_price } = found;
  return { input_price, output_price, total_price };
}

const PRICES: readonly ModelInfo['prices'][] = [
  { input_mtok: 2.5, output_mtok: 10 },
  { input_mtok: 0.15, cache_read_mtok: 0.075, output_mtok: 0.6 },
  { output_mtok: 15, cache_write_mtok: 3.75, input_mtok: 3, cache_read_mtok: 0.3 },
  { input_mtok: 0.1 },
  { input_mtok: 1, output_mtok: 2, output_reasoning_mtok: 0.3 },
  { input_mtok: 1.1, input_audio_mtok: 7, output_audio_mtok: 9, output_mtok: 2 },
  {
    input_mtok: {
      base: 1.25,
      tiers: [
        { start: 400_000, price: 3.1 },
        { start: 200_000, price: 2.5 },
      ],
    },
    cache_read_mtok: { base: 0.31, tiers: [{ start: 200_000, price: 0.625 }] },
    output_mtok: { base: 10, tiers: [{ start: 200_000, price: 15 }] },
  },
  { input_mtok: 0, output_mtok: 0.3, cache_write_mtok: 0.7 },
  { cache_write_1h_mtok: 6, input_mtok: 3, output_mtok: 15, cache_write_mtok: 3.75 },
];

t.test('has the cost of the library to the last bit', async (t) => {
  for (const prices of PRICES) {
    const flat = flatPriceOf({ prices }) ?? [];
    t.not(flat.length, 0);
    for (let i = 0; i < 500; i++) {
      const [input, output] = [i * 7919, i * 104_729];
      const cacheRead = i % 3 === 0 ? 0 : Math.floor(input / 3);
      const cacheWrite = i % 4 === 0 ? 0 : Math.floor(input / 7);
      const cacheWriteHour = i % 2 === 0 ? 0 : Math.floor(cacheWrite / 2);
      const parts = { cacheRead, cacheWrite, cacheWriteHour, reasoning: i * 13 };
      const tokens = { ...NONE, input, output, ...parts };
      const expected = byLibrary(prices, tokens);
      assert.deepEqual(flatCostOf(flat, tokens), expected);
    }
  }
});

t.test(
  'prices all input if the whole of it was cached, and leaves one token more to the library',
  async (t) => {
    const prices = { input_mtok: 3, cache_read_mtok: 0.3 };
    const flat = flatPriceOf({ prices }) ?? [];
    const all = { ...NONE, input: 100, cacheRead: 100 };
    t.same(flatCostOf(flat, all), byLibrary(prices, all));
    t.equal(flatCostOf(flat, { ...all, cacheRead: 101 }), undefined);
  },
);

t.test('leaves other counts to the library', async (t) => {
  const flat = flatPriceOf({ prices: { input_mtok: 1, output_mtok: 2 } }) ?? [];
  t.not(flatCostOf(flat, { ...NONE, input: 1, output: 1 }), undefined);
  for (const odd of [
    { input: 0.5 },
    { input: -1 },
    { output: Number.NaN },
    { inputAudio: 1 },
    { outputAudio: 1 },
  ]) {
    t.equal(flatCostOf(flat, { ...NONE, input: 1, output: 1, ...odd }), undefined);
  }
});

t.test('a tier begins one token past its start', async (t) => {
  const prices = { input_mtok: { base: 1, tiers: [{ start: 200_000, price: 2 }] } };
  const flat = flatPriceOf({ prices }) ?? [];
  const at = flatCostOf(flat, { ...NONE, input: 200_000 });
  const past = flatCostOf(flat, { ...NONE, input: 200_001 });
  t.same([at?.total_price, past?.total_price], [0.2, 0.400_002]);
});

t.test('leaves prices that depend on the time or on requests to the library', async (t) => {
  t.equal(flatPriceOf({ prices: [{ prices: { input_mtok: 1 } }] }), undefined);
  t.equal(flatPriceOf({ prices: { input_mtok: 1, requests_kcount: 5 } }), undefined);
});

t.test('has the costs of the library for the bundled prices', async (t) => {
  const pricing = createPricing({});
  const at = Date.UTC(2026, 5, 1, 12);
  const usd = 1e9;
  for (const model of ['gpt-4o', 'gpt-5', 'claude-sonnet-4-5', 'gemini-2.5-pro', 'o3-mini']) {
    for (let i = 1; i < 100; i++) {
      const usage = { input_tokens: i * 7919, output_tokens: i * 104_729 };
      const found = calcPrice(usage, model, { timestamp: new Date(at) });
      const cost = pricing({ model, provider: undefined, usage, source: 'otlp', at });
      t.match(cost, {
        input: Math.round((found?.input_price ?? 0) * usd),
        output: Math.round((found?.output_price ?? 0) * usd),
      });
    }
  }
});
