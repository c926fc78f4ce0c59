import type { UsageHistory } from '../api/types.ts';

/** The usage of a key in a period. */
export type UsageRow = UsageHistory['usage'][number];

/** The start of `2026-11-20` or `2026-11-20T21`, UTC, milliseconds since 1970. */
export function startOf(period: string): number {
  return Date.parse(period.length === 10 ? `${period}T00:00:00Z` : `${period}:00:00Z`);
}

/** Rejected items and refused requests by code, the most first. */
export function rejectedByCode(
  rows: readonly UsageRow[],
): readonly { readonly code: string; readonly count: number }[] {
  const sums = new Map<string, number>();
  for (const { rejected } of rows) {
    for (const [code, count] of Object.entries(rejected)) {
      sums.set(code, (sums.get(code) ?? 0) + count);
    }
  }
  return [...sums].map(([code, count]) => ({ code, count })).sort((a, b) => b.count - a.count);
}
