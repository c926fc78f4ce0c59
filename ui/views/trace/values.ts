import type { Trace } from '../../api/types.ts';

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

export function scoreText(value: number | boolean | string): string {
  return typeof value === 'number' ? String(Number(value.toPrecision(6))) : String(value);
}
