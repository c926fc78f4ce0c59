import type { TokenUsage } from '../../src/model/observation.ts';
import type { PricedCall } from '../../src/store/pricing.ts';

/**
 * Tokens of one call. `input` includes cached tokens, `output` includes tokens of reasoning, and both include audio:
 * each further count is a part of one of them.
 */
export type Tokens = {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  /** Those of `cacheWrite` that last an hour. */
  readonly cacheWriteHour: number;
  readonly reasoning: number;
  readonly inputAudio: number;
  readonly outputAudio: number;
};

/** Anthropic's names: in its own usage objects `input_tokens` excludes these counts. */
const ANTHROPIC = ['cache_read_input_tokens', 'cache_creation_input_tokens'] as const;

/**
 * The tokens of a usage, whatever its vocabulary; undefined if it has neither input nor output.
 *
 *   OTLP     input includes cached tokens, as OpenTelemetry and OpenInference define; the mapping of attributes adds
 *            them to Langfuse's counts, which exclude them
 *   runs     input includes them, as LangChain defines
 *   native   input includes them, unless the counts have Anthropic's names, as in rows of earlier versions
 *
 * The numbers decide if they contradict that: parts larger than the whole, or a total that only one reading adds up to.
 */
export function tokensOf({
  usage,
  source,
}: Pick<PricedCall, 'usage' | 'source'>): Tokens | undefined {
  const sent = sentCounts(usage);
  const { input, output, cacheRead = 0, cacheWrite = 0, reasoning = 0 } = sent;
  if (input === undefined && output === undefined) return undefined;
  const whole = { total: sent.total, input: input ?? 0, output: output ?? 0 };
  const isRaw = source === 'native' && ANTHROPIC.some((name) => Object.hasOwn(usage, name));
  const cached = cacheRead + cacheWrite;
  const isCacheApart = isApart(whole, whole.input, cached, reasoning, isRaw);
  const isReasoningApart = isApart(
    whole,
    whole.output,
    reasoning,
    isCacheApart ? cached : 0,
    false,
  );
  return {
    input: whole.input + (isCacheApart ? cached : 0),
    output: whole.output + (isReasoningApart ? reasoning : 0),
    cacheRead,
    cacheWrite,
    cacheWriteHour: Math.min(cacheWrite, sent.cacheWriteHour ?? 0),
    reasoning,
    inputAudio: sent.inputAudio ?? 0,
    outputAudio: sent.outputAudio ?? 0,
  };
}

type Whole = {
  readonly total: number | undefined;
  readonly input: number;
  readonly output: number;
};

/** Whether a part is in addition to its side, instead of included. `other`: a part that the total may have too. */
function isApart(
  { total, input, output }: Whole,
  side: number,
  part: number,
  other: number,
  byDefault: boolean,
): boolean {
  if (part === 0) return false;
  if (part > side) return true;
  const sum = input + output;
  if (total === sum + part || total === sum + part + other) return true;
  return total === sum ? false : byDefault;
}

/** Each count by its names among clients. Hot path, runs for every model call: the names are written out, because a loop over lists of names costs more. */
function sentCounts(usage: TokenUsage) {
  return {
    input: firstOf(usage.input_tokens, usage.prompt_tokens, usage.input),
    output: firstOf(usage.output_tokens, usage.completion_tokens, usage.output),
    total: firstOf(usage.total_tokens, usage.total),
    cacheRead: firstOf(
      usage.cache_read_input_tokens,
      usage.cached_tokens,
      usage.cache_read_tokens,
      usage.input_cached_tokens,
      usage.cached_input_tokens,
    ),
    cacheWrite: firstOf(
      usage.cache_creation_input_tokens,
      usage.cache_write_tokens,
      usage.cache_write_input_tokens,
    ),
    cacheWriteHour: firstOf(usage.cache_write_1h_tokens),
    reasoning: firstOf(
      usage.reasoning_tokens,
      usage.reasoning_output_tokens,
      usage.output_reasoning_tokens,
    ),
    inputAudio: firstOf(usage.input_audio_tokens),
    outputAudio: firstOf(usage.output_audio_tokens),
  };
}

/** The first one that is present, and not negative. */
function firstOf(
  a: number | undefined,
  b?: number,
  c?: number,
  d?: number,
  e?: number,
): number | undefined {
  if (isCount(a)) return a;
  if (isCount(b)) return b;
  if (isCount(c)) return c;
  if (isCount(d)) return d;
  return isCount(e) ? e : undefined;
}

function isCount(count: number | undefined): boolean {
  return count !== undefined && count >= 0;
}
