import type { HistogramPart } from '../../src/store/rollups/histogram.ts';
import { addPart, takeQuantiles } from '../../src/store/rollups/histogram.ts';

/** The latencies below which these parts (0 to 1, ascending) of all are, in milliseconds; null without a latency. */
export function quantiles(
  histogram: readonly HistogramPart[],
  parts: readonly number[],
): (number | null)[] {
  for (const part of histogram) addPart(part, 0, part.length);
  const found = new Float64Array(parts.length);
  takeQuantiles(parts, found, 0);
  return Array.from(found, (latency) => (Number.isNaN(latency) ? null : latency));
}
