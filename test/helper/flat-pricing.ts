import type { Pricing } from '../../src/store/pricing.ts';

/** A pricing for tests of stores. `options` are the nanos of a token by model. */
export function createPricing(options: unknown): Pricing {
  const prices = new Map(Object.entries(options as Readonly<Record<string, number>>));
  return ({ model, usage }) => {
    const price = prices.get(model);
    if (price === undefined) return 'unknown_price';
    const [input, output] = [(usage.input_tokens ?? 0) * price, (usage.output_tokens ?? 0) * price];
    return { input, output, total: input + output, source: 'computed' };
  };
}
