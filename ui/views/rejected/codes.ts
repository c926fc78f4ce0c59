import type { Sample } from '../../parts/series.ts';
import type { UsageRow } from '../../parts/usage-history.ts';
import { startOf } from '../../parts/usage-history.ts';

/** One sample for each code of a period. */
export function samplesByCode(rows: readonly UsageRow[]): readonly Sample[] {
  return rows.flatMap(({ period, rejected }) =>
    Object.entries(rejected).map(([group, value]) => ({ time: startOf(period), group, value })),
  );
}
