import type { Store } from '../store/store.ts';
import { type ShownUsageRow, shownUsageRow } from './public-form.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Most periods in one answer. */
const MAX_PERIODS = { day: 400, hour: 31 * 24 } as const;
const DEFAULT_PERIODS = { day: 30, hour: 48 } as const;

export type UsageRange = {
  /** Milliseconds since the epoch, at the beginning of a period. */
  readonly from: number;
  /** The end of a period; not included. */
  readonly to: number;
  readonly by: 'day' | 'hour';
};

/** An invalid range. The message names the reason without repeating the values. */
export class UsageRangeError extends Error {
  override readonly name = 'UsageRangeError';
}

/**
 * The whole UTC periods from `from` (inclusive) to `to` (exclusive). Both are valid ISO 8601 dates, or dates and
 * times with offset. The default of `to` is now.
 */
export function usageRange(
  asked: { from?: string | undefined; to?: string | undefined; by?: 'day' | 'hour' | undefined },
  now: number,
): UsageRange {
  const by = asked.by ?? 'day';
  const period = by === 'day' ? DAY_MS : HOUR_MS;
  const end = asked.to === undefined ? now : Date.parse(asked.to);
  const to = Math.ceil(end / period) * period;
  const from =
    asked.from === undefined
      ? to - DEFAULT_PERIODS[by] * period
      : Math.floor(Date.parse(asked.from) / period) * period;
  if (from >= to) throw new UsageRangeError('from must be before to');
  if ((to - from) / period > MAX_PERIODS[by]) {
    throw new UsageRangeError(`a range has at most ${MAX_PERIODS[by]} ${by}s`);
  }
  return { from, to, by };
}

/** Usage by whole periods, with the resolved range. Times are ISO 8601 UTC. */
export type ShownHistory = {
  readonly from: string;
  readonly to: string;
  readonly by: 'day' | 'hour';
  readonly usage: readonly ShownUsageRow[];
};

/** The answer of the API and of commands, for one project or for all. */
export async function shownHistory(
  { usage }: Pick<Store, 'usage'>,
  { from, to, by }: UsageRange,
  projectId: string | undefined,
): Promise<ShownHistory> {
  const rows = await usage.history({
    from,
    to,
    by,
    ...(projectId === undefined ? {} : { projectId }),
  });
  return {
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
    by,
    usage: rows.map(shownUsageRow),
  };
}
