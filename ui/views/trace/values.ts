import type { Trace, TreeObservation } from '../../api/types.ts';

type Tokens = {
  readonly input: number | null;
  readonly output: number | null;
  readonly total: number | null;
};

/** The counts of tokens of a usage; a total that was sent alone counts. */
export function tokensOf(usage: Trace['usage']): Tokens {
  const of = (name: string): number | null => {
    const value = usage?.[name];
    return typeof value === 'number' ? value : null;
  };
  const [input, output] = [of('input_tokens'), of('output_tokens')];
  const sum = input === null && output === null ? null : (input ?? 0) + (output ?? 0);
  return { input, output, total: of('total_tokens') ?? sum };
}

/** Says that the totals of the trace leave tokens or cost of an observation out; null if they count both. */
export function uncountedOf(observation: TreeObservation): string | null {
  const { usage, cost, counted, cost_counted: isCostCounted } = observation;
  const isUsageOut = tokensOf(usage).total !== null && !counted;
  const isCostOut = cost !== null && !isCostCounted;
  if (isUsageOut === isCostOut) return isUsageOut ? 'not counted' : null;
  // Without the other amount there is nothing to tell it from.
  if (usage === null || cost === null) return 'not counted';
  return isUsageOut ? 'tokens not counted' : 'cost not counted';
}

export function scoreText(value: number | boolean | string): string {
  return typeof value === 'number' ? String(Number(value.toPrecision(6))) : String(value);
}
