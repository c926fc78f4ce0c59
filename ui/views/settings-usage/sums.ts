import type { Sample } from '../../parts/series.ts';
import type { UsageRow } from '../../parts/usage-history.ts';
import { startOf } from '../../parts/usage-history.ts';

export type Measure = 'events' | 'bytes' | 'rejected';
export type Grouping = 'project' | 'key';

function measured({ events, bytes, rejected }: UsageRow, measure: Measure): number {
  if (measure === 'events') return events;
  if (measure === 'bytes') return bytes;
  return Object.values(rejected).reduce((sum, count) => sum + count, 0);
}

/** The samples of a chart. Periods without a value are left out, so a group without one has no line in the legend. */
export function samplesOf(
  rows: readonly UsageRow[],
  measure: Measure,
  grouping: Grouping,
): readonly Sample[] {
  return rows
    .map((row) => ({
      time: startOf(row.period),
      group: grouping === 'project' ? row.project_id : row.key_id,
      value: measured(row, measure),
    }))
    .filter(({ value }) => value > 0);
}

/** The part of a limit that is used, 0 to 1; undefined without a limit. */
export function usedPart(used: number, limit: number | null): number | undefined {
  if (limit === null) return undefined;
  return limit === 0 ? 1 : Math.min(1, used / limit);
}

/** A part as whole percent, rounded down: `100 %` is a limit that is reached. */
export function percent(part: number): string {
  if (part > 0 && part < 0.01) return '< 1 %';
  // 0.29 * 100 is below 29.
  const nearest = Math.round(part * 100);
  return `${nearest / 100 > part ? nearest - 1 : nearest} %`;
}
