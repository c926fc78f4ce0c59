import type { Trace } from '../api/types.ts';

/** A count of tokens; undefined if the client did not send it. */
export function tokensIn(usage: Trace['usage'], kind = 'total_tokens'): number | undefined {
  const value: unknown = usage?.[kind];
  // An exact answer has a sum that a double cannot hold.
  if (typeof value === 'bigint') return Number(value);
  return typeof value === 'number' ? value : undefined;
}
