import type { Trace } from '../api/types.ts';

/** A count of tokens; undefined if the client did not send it. */
export function tokensIn(usage: Trace['usage'], kind = 'total_tokens'): number | undefined {
  const value = usage?.[kind];
  return typeof value === 'number' ? value : undefined;
}
