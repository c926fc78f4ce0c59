import type { ModelPrice } from '@pydantic/genai-prices';
import { RE2JS } from 're2js';
import type { PriceEntry } from './config.ts';

/** A price of the configuration, and its first moment in milliseconds since the epoch. */
export type ConfiguredPrice = { readonly from: number; readonly price: ModelPrice };

type Candidate = ConfiguredPrice & {
  /** Null: every provider. */
  readonly provider: string | null;
  readonly rank: number;
  readonly matches: (model: string) => boolean;
};

/**
 * Returns the configured prices of a model, the one to try first at the front: an exact name before a prefix (longer ones first)
 * before a pattern, an entry with a provider before one without, a later `from` before an earlier one, and then the order
 * of the configuration. The first price that is valid at the time of a call counts.
 */
export function configuredPrices(
  entries: readonly PriceEntry[],
): (model: string, provider: string | undefined) => readonly ConfiguredPrice[] {
  const candidates = entries.map(candidateOf).sort(byPrecedence);
  return (model, provider) => {
    const [name, of] = [lower(model), provider === undefined ? null : lower(provider)];
    return candidates.filter(
      (one) => (one.provider === null || one.provider === of) && one.matches(name),
    );
  };
}

function candidateOf(entry: PriceEntry): Candidate {
  const { provider, from } = entry;
  return {
    ...matcherOf(entry),
    provider: provider === undefined ? null : lower(provider),
    from: from === undefined ? Number.NEGATIVE_INFINITY : Date.parse(`${from}T00:00:00Z`),
    price: priceOf(entry),
  };
}

const PATTERN_RANK = Number.MAX_SAFE_INTEGER;

/** An exact name has the lowest rank; a longer prefix has a lower rank than a shorter one. */
function matcherOf({
  model,
  model_matches: pattern,
}: PriceEntry): Pick<Candidate, 'rank' | 'matches'> {
  if (model === undefined) {
    const compiled = RE2JS.compile(pattern ?? '');
    return { rank: PATTERN_RANK, matches: (name) => compiled.test(name) };
  }
  const wanted = lower(model);
  if (!wanted.endsWith('*')) return { rank: 0, matches: (name) => name === wanted };
  const prefix = wanted.slice(0, -1);
  return { rank: PATTERN_RANK - 1 - prefix.length, matches: (name) => name.startsWith(prefix) };
}

function byPrecedence(a: Candidate, b: Candidate): number {
  return (
    a.rank - b.rank ||
    Number(a.provider === null) - Number(b.provider === null) ||
    (a.from === b.from ? 0 : b.from > a.from ? 1 : -1)
  );
}

/** The library wants a price for cached audio if both cached tokens and audio have one. */
function priceOf(entry: PriceEntry): ModelPrice {
  const { input_audio_mtok, cache_read_mtok, cache_write_mtok, cache_write_1h_mtok } = entry;
  const { output_mtok, output_reasoning_mtok, output_audio_mtok } = entry;
  return known({
    input_mtok: entry.input_mtok,
    output_mtok,
    cache_read_mtok,
    cache_write_mtok,
    cache_write_1h_mtok,
    output_reasoning_mtok,
    input_audio_mtok,
    output_audio_mtok,
    cache_audio_read_mtok: input_audio_mtok === undefined ? undefined : cache_read_mtok,
    cache_audio_write_mtok: input_audio_mtok === undefined ? undefined : cache_write_mtok,
    cache_audio_write_1h_mtok: input_audio_mtok === undefined ? undefined : cache_write_1h_mtok,
    output_audio_reasoning_mtok:
      output_audio_mtok === undefined ? undefined : output_reasoning_mtok,
  });
}

function known(price: ModelPrice): ModelPrice {
  return Object.fromEntries(Object.entries(price).filter(([, value]) => value !== undefined));
}

function lower(text: string): string {
  return text.trim().toLowerCase();
}
