import type { ModelInfo, Provider, Usage } from '@pydantic/genai-prices';
import { calcPrice, findProvider } from '@pydantic/genai-prices';
import { LruCache } from '../../src/component/lru.ts';
import type { Cost } from '../../src/model/details.ts';
import type { Pricing } from '../../src/store/pricing.ts';
import { pricingOptions } from './config.ts';
import type { FlatCost, FlatPrice } from './flat-price.ts';
import { flatCostOf, flatPriceOf } from './flat-price.ts';
import { configuredPrices } from './overrides.ts';
import type { Tokens } from './usage.ts';
import { tokensOf } from './usage.ts';

/**
 * Prices calls by the configured prices, else by those that `@pydantic/genai-prices` bundles. A pricing asks no other
 * machine. The look-up of a model and a provider is kept.
 *
 *   model, provider ─▶ tariff (kept) ─┐
 *   usage ─▶ tokens ──────────────────┴─▶ cost at the time of the call
 */
export function createPricing(options: unknown): Pricing {
  const { prices, max_models: maxEntries } = pricingOptions.parse(options);
  const configured = configuredPrices(prices);
  const tariffs = new LruCache<string, Tariff | null>({ maxEntries });

  function tariffOf(model: string, provider: string | undefined): Tariff | null {
    const key = `${provider ?? ''}\n${model}`;
    const found = tariffs.get(key);
    if (found !== undefined) return found;
    const tariff = findTariff(model, provider);
    tariffs.set(key, tariff);
    return tariff;
  }

  function findTariff(model: string, provider: string | undefined): Tariff | null {
    const all = configured(model, provider).map(({ from, price }) =>
      pricedFrom(from, 'configured', { id: model, match: ANY, prices: price }),
    );
    const bundled = bundledPrice(model, provider);
    if (bundled !== undefined) all.push(bundled);
    return all.length === 0 ? null : all;
  }

  return (call) => {
    const tokens = tokensOf(call);
    if (tokens === undefined) return undefined;
    const tariff = tariffOf(call.model, call.provider)?.find(({ from }) => from <= call.at);
    if (tariff === undefined) return 'unknown_price';
    return costOf(tokens, tariff, call.at) ?? 'unknown_price';
  };
}

/** The prices of one model, the first one that is valid counts. */
type Tariff = readonly TariffPrice[];

type TariffPrice = {
  readonly from: number;
  /** A provider with this model only. */
  readonly provider: Provider;
  /** Set if the cost does not need the library. */
  readonly flat: FlatPrice | undefined;
};

const ALWAYS = Number.NEGATIVE_INFINITY;

/** The name of the only model of the provider of a `TariffPrice`. */
const MODEL = 'model';
const ANY = { equals: MODEL };

/** The library finds the model of the provider without a search. */
function pricedFrom(from: number, id: string, model: ModelInfo): TariffPrice {
  const provider = { id, name: id, api_pattern: '', models: [{ ...model, match: ANY }] };
  return { from, provider, flat: flatPriceOf(model) };
}

function bundledPrice(model: string, provider: string | undefined): TariffPrice | undefined {
  for (const [name, providerId] of lookups(model, provider)) {
    const found = calcPrice({}, name, providerId === undefined ? {} : { providerId });
    if (found !== null) return pricedFrom(ALWAYS, found.provider.id, found.model);
  }
  return undefined;
}

/**
 * The look-ups of a model, in order. The name decides if the library does not know the provider. A known provider that does not
 * have the model has no price for it: another provider's price would be a guess. `vendor/model`, as routers name models, is
 * the vendor's model. The ids of Bedrock name their provider, which frameworks for agents do not.
 */
function* lookups(
  model: string,
  provider: string | undefined,
): Generator<[name: string, provider: string | undefined]> {
  const isKnown = provider !== undefined && findProvider({ providerId: provider }) !== undefined;
  yield [model, isKnown ? provider : undefined];
  const slash = model.indexOf('/');
  const name = model.slice(slash + 1);
  if (slash !== -1) {
    const vendor = model.slice(0, slash);
    const isVendor = findProvider({ providerId: vendor }) !== undefined;
    yield [name, isVendor ? vendor : isKnown ? provider : undefined];
  }
  if (!isKnown && BEDROCK_ID.test(name)) yield [name, 'aws'];
}

/** `us.anthropic.claude-sonnet-4-5-20250929-v1:0`: a region, if any, and the vendor of the model. */
const BEDROCK_ID =
  /^(?:[a-z]{2,6}(?:-gov)?\.)?(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen|writer)\.[a-z]/;

function costOf(tokens: Tokens, { provider, flat }: TariffPrice, at: number): Cost | undefined {
  const cost = flat === undefined ? undefined : flatCostOf(flat, tokens);
  if (cost !== undefined) return costOfPrice(cost);
  const options = { provider, timestamp: new Date(at) };
  for (const usage of usagesOf(tokens)) {
    try {
      const price = calcPrice(usage, MODEL, options);
      if (price !== null) return costOfPrice(price);
    } catch {
      // The library refuses counts that contradict each other; the next usage has fewer.
    }
  }
  return undefined;
}

/** The usage to price, then the same without the parts that the library may refuse. */
function* usagesOf(tokens: Tokens): Generator<Usage> {
  const { input, output, cacheRead, cacheWrite, reasoning, inputAudio, outputAudio } = tokens;
  const { cacheWriteHour } = tokens;
  const whole = { input_tokens: input, output_tokens: output };
  const parts: Record<string, number> = {};
  if (cacheRead > 0) parts.cache_read_tokens = cacheRead;
  if (cacheWrite > 0) parts.cache_write_tokens = cacheWrite;
  if (cacheWriteHour > 0) parts.cache_write_1h_tokens = cacheWriteHour;
  if (reasoning > 0) parts.output_reasoning_tokens = reasoning;
  if (inputAudio + outputAudio > 0) {
    yield { ...whole, ...parts, ...audioOf(tokens) };
  }
  yield { ...whole, ...parts };
  yield whole;
}

/** Clients do not say how much of the audio was cached or reasoning: these parts are taken as text. */
function audioOf({ inputAudio, outputAudio }: Tokens): Usage {
  return {
    ...(inputAudio === 0
      ? {}
      : {
          input_audio_tokens: inputAudio,
          cache_audio_read_tokens: 0,
          cache_audio_write_tokens: 0,
          cache_audio_write_1h_tokens: 0,
        }),
    ...(outputAudio === 0
      ? {}
      : { output_audio_tokens: outputAudio, output_audio_reasoning_tokens: 0 }),
  };
}

const NANOS_PER_USD = 1e9;

/** The total is the sum of the parts, and of fees that belong to neither side. */
function costOfPrice(price: FlatCost): Cost {
  const input = Math.round(price.input_price * NANOS_PER_USD);
  const output = Math.round(price.output_price * NANOS_PER_USD);
  const fees = price.total_price - price.input_price - price.output_price;
  return {
    input,
    output,
    total: input + output + Math.round(fees * NANOS_PER_USD),
    source: 'computed',
  };
}
