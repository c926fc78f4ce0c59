import type { StatsPoint, StatsRows } from './reading.ts';

/**
 * Points as one array of numbers: it crosses between threads at a fraction of the cost of an object for each point. A row has
 * the index of the key (-1 for null), the time, the numbers and the latencies (NaN for null).
 */
export type PackedPoints = {
  readonly keys: readonly string[];
  readonly cells: Float64Array;
  readonly isIncomplete: boolean;
};

const NUMBERS = 7;
const LATENCIES = 3;
const WIDTH = 2 + NUMBERS + LATENCIES;

export function packPoints({ points, isIncomplete }: StatsRows): PackedPoints {
  const indexes = new Map<string, number>();
  const cells = new Float64Array(points.length * WIDTH);
  let at = 0;
  for (const { key, time, numbers, latencies } of points) {
    let index = key === null ? -1 : indexes.get(key);
    if (index === undefined) {
      index = indexes.size;
      indexes.set(key ?? '', index);
    }
    cells[at++] = index;
    cells[at++] = time;
    for (let i = 0; i < NUMBERS; i++) cells[at++] = numbers[i] ?? 0;
    for (let i = 0; i < LATENCIES; i++) cells[at++] = latencies[i] ?? Number.NaN;
  }
  return { keys: [...indexes.keys()], cells, isIncomplete };
}

export function unpackPoints({ keys, cells, isIncomplete }: PackedPoints): StatsRows {
  const points: StatsPoint[] = [];
  for (let at = 0; at < cells.length; at += WIDTH) {
    const numbersAt = at + 2;
    const latenciesAt = numbersAt + NUMBERS;
    points.push({
      key: keys[cells[at] ?? -1] ?? null,
      time: cells[at + 1] ?? 0,
      numbers: [...cells.subarray(numbersAt, latenciesAt)],
      latencies: Array.from(cells.subarray(latenciesAt, at + WIDTH), (latency) =>
        Number.isNaN(latency) ? null : latency,
      ),
    });
  }
  return { points, isIncomplete };
}
