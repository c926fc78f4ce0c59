import type { PackedPoints } from '../../src/store/rollups/points.ts';
import { POINT } from '../../src/store/rollups/points.ts';

/** A point of statistics. */
type StatsPoint = {
  readonly key: string | null;
  readonly time: number;
  readonly numbers: readonly number[];
  readonly latencies: readonly (number | null)[];
};

/** The points of packed statistics, in their order. */
export function pointsOf({ keys, ends, cells }: PackedPoints): StatsPoint[] {
  return keys.flatMap((key, i) => {
    const [from, to] = [ends[i - 1] ?? 0, ends[i] ?? 0];
    return Array.from({ length: to - from }, (_, point): StatsPoint => {
      const [time = 0, ...own] = cells.slice(
        (from + point) * POINT.WIDTH,
        (from + point + 1) * POINT.WIDTH,
      );
      const [numbers, latencies] = [own.slice(0, POINT.COST), own.slice(POINT.COST)];
      return {
        ...{ key, time, numbers },
        latencies: latencies.map((latency) => (Number.isNaN(latency) ? null : latency)),
      };
    });
  });
}
