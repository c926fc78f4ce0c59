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

/** The names of each count among clients; the first one that is present counts. */
const NAMES = {
  input: ['input_tokens', 'prompt_tokens', 'input'],
  output: ['output_tokens', 'completion_tokens', 'output'],
  total: ['total_tokens', 'total'],
  cacheRead: [
    'cache_read_input_tokens',
    'cached_tokens',
    'cache_read_tokens',
    'input_cached_tokens',
    'cached_input_tokens',
  ],
  cacheWrite: ['cache_creation_input_tokens', 'cache_write_tokens', 'cache_write_input_tokens'],
  cacheWriteHour: ['cache_write_1h_tokens'],
  reasoning: ['reasoning_tokens', 'reasoning_output_tokens', 'output_reasoning_tokens'],
  inputAudio: ['input_audio_tokens'],
  outputAudio: ['output_audio_tokens'],
} as const;

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
  const input = countOf(usage, NAMES.input);
  const output = countOf(usage, NAMES.output);
  if (input === undefined && output === undefined) return undefined;
  const count = (names: readonly string[]): number => countOf(usage, names) ?? 0;
  const [cacheRead, cacheWrite] = [count(NAMES.cacheRead), count(NAMES.cacheWrite)];
  const reasoning = count(NAMES.reasoning);
  const whole = {
    total: countOf(usage, NAMES.total),
    input: input ?? 0,
    output: output ?? 0,
  };
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
    cacheWriteHour: Math.min(cacheWrite, count(NAMES.cacheWriteHour)),
    reasoning,
    inputAudio: count(NAMES.inputAudio),
    outputAudio: count(NAMES.outputAudio),
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

function countOf(usage: TokenUsage, names: readonly string[]): number | undefined {
  for (const name of names) {
    const count = Object.hasOwn(usage, name) ? usage[name] : undefined;
    if (count !== undefined && count >= 0) return count;
  }
  return undefined;
}
