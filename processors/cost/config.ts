import { z } from 'zod';
import { ref } from '../../src/schema/fields.ts';
import { re2Pattern } from '../../src/schema/pattern-field.ts';
import { STORE } from '../../src/store/store.ts';

const usd = z.number().min(0).max(1_000_000);

/** A price per million tokens, or one that depends on the size of the input. */
const price = z.union([
  usd,
  z.strictObject({
    base: usd,
    tiers: z
      .array(z.strictObject({ start: z.int().min(0), price: usd }))
      .min(1)
      .max(16),
  }),
]);

const day = z.string().refine((text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && isDay(text), {
  error: 'expected a day, such as 2026-01-31',
});

function isDay(text: string): boolean {
  const at = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text);
}

const entry = z
  .strictObject({
    model: z
      .string()
      .min(1)
      .max(512)
      .optional()
      .describe('The name of the model in any case, or its beginning with `*` at the end.'),
    model_matches: re2Pattern()
      .optional()
      .describe('A pattern in RE2 syntax, anywhere in the name in lower case.'),
    provider: z
      .string()
      .min(1)
      .max(512)
      .optional()
      .describe('Only for calls of this provider, in any case. Default: every provider.'),
    from: day
      .optional()
      .describe(
        'The first day of the price, in UTC: `2026-01-31`. Default: the price was always valid.',
      ),
    input_mtok: price.describe(
      'USD per million input tokens, or `{base, tiers: [{start, price}]}`: the price of all tokens of a call whose input has more than `start` tokens.',
    ),
    output_mtok: price.default(0).describe('Output tokens.'),
    cache_read_mtok: price
      .optional()
      .describe('Input tokens that were read from a cache. Default: as input.'),
    cache_write_mtok: price
      .optional()
      .describe('Input tokens that were written to a cache. Default: as input.'),
    cache_write_1h_mtok: price
      .optional()
      .describe(
        'Those of them that last an hour. It needs `cache_write_mtok`. Default: as `cache_write_mtok`.',
      ),
    output_reasoning_mtok: price
      .optional()
      .describe('Output tokens of reasoning. Default: as output.'),
    input_audio_mtok: price.optional().describe('Input tokens of audio. Default: as input.'),
    output_audio_mtok: price.optional().describe('Output tokens of audio. Default: as output.'),
  })
  .refine(({ model, model_matches }) => (model === undefined) !== (model_matches === undefined), {
    error: 'expected either model or model_matches',
  })
  .refine(
    ({ cache_write_1h_mtok: hour, cache_write_mtok: write }) =>
      hour === undefined || write !== undefined,
    { error: 'cache_write_1h_mtok needs cache_write_mtok' },
  );

/** The fields that the pricing depends on. */
export const pricingOptions = z.object({
  prices: z
    .array(entry)
    .max(1000)
    .default([])
    .describe('Prices of further models, and prices instead of the built-in ones.'),
  max_models: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(1024)
    .describe('Look-ups of a model and a provider to keep. The least recently used is evicted.'),
});

export const config = z.strictObject({
  store: ref(STORE)
    .optional()
    .describe(
      'The store that the observations reach. It prices those whose model and usage arrive in different events, and `tracectl cost recompute` prices again what it has.',
    ),
  ...pricingOptions.shape,
  max_unpriced_models: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe(
      'Models without a known price to count by name in `tracectl_cost_unpriced_observations_total`; further ones count as `other`.',
    ),
});

export type CostConfig = z.output<typeof config>;
export type PriceEntry = z.output<typeof entry>;
