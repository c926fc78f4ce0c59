import type { Stats } from '../../api/types.ts';
import type { Sample } from '../../parts/series.ts';

type Group = Stats['groups'][number];
type Point = Group['points'][number];
type PointField = 'traces' | 'observations' | 'errors' | 'input_tokens' | 'output_tokens' | 'cost';
type LatencyField = 'latency_p50_ms' | 'latency_p95_ms' | 'latency_p99_ms';

/** The sum of a field over all points of a group. */
export function sumOf(points: readonly Point[], field: PointField): number {
  return points.reduce((sum, point) => sum + (point[field] ?? 0), 0);
}

/** The cost of all points; null for 0, because the points count an unknown cost as 0. */
export function costOf(points: readonly Point[]): number | null {
  return sumOf(points, 'cost') || null;
}

/** A value for each time; 0 where the daemon has no point. */
export function valuesAt(
  times: readonly number[],
  points: readonly Point[],
  field: PointField,
): readonly number[] {
  const known = new Map(points.map((point) => [Date.parse(point.time), point[field] ?? 0]));
  return times.map((time) => known.get(time) ?? 0);
}

/** A latency for each time; null where no trace ended. */
export function latencyAt(
  times: readonly number[],
  points: readonly Point[],
  field: LatencyField,
): readonly (number | null)[] {
  const known = new Map(points.map((point) => [Date.parse(point.time), point[field] ?? null]));
  return times.map((time) => known.get(time) ?? null);
}

/** Values of every group, for a chart of the largest ones. */
export function samplesOf(groups: readonly Group[], field: PointField): readonly Sample[] {
  return groups.flatMap(({ key, points }) =>
    points.map((point) => ({
      time: Date.parse(point.time),
      group: key,
      value: point[field] ?? 0,
    })),
  );
}

/** The name of a group; a value whose text is not kept, or no value, has none. */
export function nameOf(key: string | null): string {
  return key ?? '(other)';
}

/** The longest 95th percentile of a group's points: percentiles cannot be added up. */
export function worstLatency(points: readonly Point[]): number | null {
  const known = points.flatMap(({ latency_p95_ms }) => latency_p95_ms ?? []);
  return known.length === 0 ? null : Math.max(...known);
}

/** A value that a trace has at its start. Milliseconds. */
export type Timed = { readonly at: number; readonly value: number };

/** The percentile of the values in each step; null where there is none. `part` is 0.5 or 0.95; the nearest rank counts. */
export function percentileAt(
  times: readonly number[],
  step: number,
  values: readonly Timed[],
  part: number,
): readonly (number | null)[] {
  const first = times[0] ?? 0;
  const sorted: number[][] = times.map(() => []);
  for (const { at, value } of values) sorted[Math.floor((at - first) / step)]?.push(value);
  return sorted.map((each) => {
    each.sort((a, b) => a - b);
    return each[Math.max(0, Math.ceil(each.length * part) - 1)] ?? null;
  });
}
