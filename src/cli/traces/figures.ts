/** The figures of a trace or an observation, as far as the commands show them. */
export type Figured = {
  readonly usage: Readonly<Record<string, number>> | null;
  readonly cost: { readonly total: number | null } | null;
};

/** A duration in three digits: `12 ms`, `1.25 s`, `3m 20s`. */
export function latencyText(ms: number | null): string {
  if (ms === null) return '-';
  if (ms < 1) return ms <= 0 ? '0 ms' : '<1 ms';
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_995) return `${(ms / 1000).toPrecision(3)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
}

/** `-` without usage. */
export function tokensText({ usage }: Pick<Figured, 'usage'>): string {
  const total = tokensOf(usage);
  if (total === undefined) return '-';
  if (total < 10_000) return String(total);
  if (total < 999_500) return `${(total / 1000).toPrecision(3)}k`;
  return `${(total / 1_000_000).toPrecision(3)}M`;
}

function tokensOf(usage: Figured['usage']): number | undefined {
  if (usage === null) return undefined;
  if (usage.total_tokens !== undefined) return usage.total_tokens;
  const { input_tokens: input, output_tokens: output } = usage;
  return input === undefined && output === undefined ? undefined : (input ?? 0) + (output ?? 0);
}

/** In US dollars; `-` without a cost. */
export function costText({ cost }: Pick<Figured, 'cost'>): string {
  const total = cost?.total ?? null;
  if (total === null) return '-';
  if (total === 0) return '$0';
  if (total < 0.0001) return '<$0.0001';
  return total < 1 ? `$${total.toFixed(4)}` : `$${total.toFixed(2)}`;
}

/** `2026-11-20 21:30:00` in UTC, or the short form without year; `-` without a time. */
export function timeText(time: string | null, isShort = false): string {
  if (time === null) return '-';
  return time.slice(isShort ? 5 : 0, 19).replace('T', ' ');
}
