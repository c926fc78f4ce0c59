import type { ModelInfo, TieredPrices } from '@pydantic/genai-prices';
import type { Tokens } from './usage.ts';

/**
 * A price that does not depend on the time of the call: the cost is a sum of products. `@pydantic/genai-prices` checks the price at each
 * call, which takes 7 to 20 µs, up to a third of what storing a span takes.
 */
export type FlatPrice = readonly {
  readonly unit: keyof typeof UNITS;
  /** USD for a million tokens. */
  readonly price: number | TieredPrices;
}[];

export type FlatCost = {
  readonly input_price: number;
  readonly output_price: number;
  readonly total_price: number;
};

const UNITS = {
  input_mtok: 'input',
  cache_read_mtok: 'input',
  cache_write_mtok: 'input',
  cache_write_1h_mtok: 'input',
  output_mtok: 'output',
  output_reasoning_mtok: 'output',
} as const;

const MILLION = 1_000_000;

/** For a valid price; undefined if it depends on the time or on requests. */
export function flatPriceOf({ prices }: Pick<ModelInfo, 'prices'>): FlatPrice | undefined {
  if (Array.isArray(prices)) return undefined;
  const flat: FlatPrice[number][] = [];
  for (const [unit, price] of Object.entries(prices)) {
    if (price === undefined) continue;
    if (unit.startsWith('requests')) return undefined;
    // No call that is priced here has other units, such as audio.
    if (isFlatUnit(unit)) flat.push({ unit, price: ascending(price) });
  }
  return flat;
}

function isFlatUnit(unit: string): unit is keyof typeof UNITS {
  return Object.hasOwn(UNITS, unit);
}

function ascending(price: number | TieredPrices): number | TieredPrices {
  if (typeof price === 'number') return price;
  return { ...price, tiers: price.tiers.toSorted((a, b) => a.start - b.start) };
}

/**
 * The cost to the last bit as the library has it, which adds in the order of the prices; undefined for counts that the library has
 * to judge.
 */
export function flatCostOf(flat: FlatPrice, tokens: Tokens): FlatCost | undefined {
  const { input, output, cacheRead, cacheWrite, cacheWriteHour, reasoning } = tokens;
  if (tokens.inputAudio + tokens.outputAudio > 0) return undefined;
  const areCounts =
    isCount(input) &&
    isCount(output) &&
    isCount(cacheRead) &&
    isCount(cacheWrite) &&
    isCount(cacheWriteHour) &&
    isCount(reasoning);
  if (!areCounts) return undefined;
  const counts = {
    input_mtok: input,
    cache_read_mtok: 0,
    cache_write_mtok: 0,
    cache_write_1h_mtok: 0,
    output_mtok: output,
    output_reasoning_mtok: 0,
  };
  // A part without a price of its own is priced as the whole.
  for (const { unit } of flat) {
    if (unit === 'cache_read_mtok') counts[unit] = cacheRead;
    if (unit === 'cache_write_mtok') counts[unit] = cacheWrite;
    if (unit === 'cache_write_1h_mtok') counts[unit] = cacheWriteHour;
    if (unit === 'output_reasoning_mtok') counts[unit] = reasoning;
  }
  counts.input_mtok -= counts.cache_read_mtok + counts.cache_write_mtok;
  counts.cache_write_mtok -= counts.cache_write_1h_mtok;
  counts.output_mtok -= counts.output_reasoning_mtok;
  if (counts.input_mtok < 0 || counts.output_mtok < 0) return undefined;
  const sums = { input: 0, output: 0 };
  for (const { unit, price } of flat) sums[UNITS[unit]] += amountOf(price, counts[unit], input);
  return {
    input_price: sums.input,
    output_price: sums.output,
    total_price: sums.input + sums.output,
  };
}

function isCount(count: number): boolean {
  return Number.isSafeInteger(count) && count >= 0;
}

/** The tier depends on the whole input. The library multiplies and divides tiered prices once more. */
function amountOf(price: number | TieredPrices, count: number, input: number): number {
  if (typeof price === 'number') return (price * count) / MILLION;
  let { base } = price;
  for (const tier of price.tiers) if (input > tier.start) base = tier.price;
  return (((base * count) / MILLION) * MILLION) / MILLION;
}
