import type { HistogramPart } from './histogram.ts';
import { addPart, takeQuantiles } from './histogram.ts';

/**
 * Points of statistics as one array of numbers: a point costs no object, and the array moves between threads. The points of a
 * group follow each other in the order of time.
 */
export type PackedPoints = {
  /** The values of the groups; null for the values without a row of their own, and if values are not grouped. */
  readonly keys: readonly (string | null)[];
  /** The number of points up to the end of each group. */
  readonly ends: readonly number[];
  /** The cells of `POINT`, for each point. */
  readonly cells: Float64Array<ArrayBuffer>;
};

/** The cells of a point. */
export const POINT = {
  /** Milliseconds since the epoch. */
  TIME: 0,
  /** As in a `RollupChange`. */
  TRACES: 1,
  OBSERVATIONS: 2,
  ERRORS: 3,
  INPUT: 4,
  OUTPUT: 5,
  CACHED: 6,
  COST: 7,
  /** The latencies that 50, 95 and 99 % do not exceed, in milliseconds; NaN without one. */
  P50: 8,
  P95: 9,
  P99: 10,
  WIDTH: 11,
} as const;

const NUMBERS = POINT.P50 - POINT.TRACES;
const QUANTILES = [0.5, 0.95, 0.99];
const FIRST_POINTS = 64;

type Group = {
  readonly key: string | null;
  /** The index of a point by its period. */
  readonly points: Map<number, number>;
};

/** A histogram of a point, and the one that was added before. */
type Latencies = {
  readonly part: HistogramPart;
  readonly from: number;
  readonly to: number;
  readonly before: Latencies | undefined;
};

/** Adds up numbers and latencies by group and time. */
export class PointSums {
  readonly #stepMs: number;
  readonly #groups = new Map<string | null, Group>();
  #cells = new Float64Array(FIRST_POINTS * POINT.WIDTH);
  /** Of each point. Most have one part, so there is no list for each. */
  readonly #latencies: (Latencies | undefined)[] = [];
  #size = 0;

  constructor(stepMs: number) {
    this.#stepMs = stepMs;
  }

  /** `from` and `to`, which is exclusive: the indexes of the histogram in `latencies`, if it is not all of them. */
  add(
    key: string | null,
    at: number,
    numbers: ArrayLike<number>,
    latencies: HistogramPart,
    from = 0,
    to = latencies.length,
  ): void {
    const index = this.#pointOf(key, Math.floor(at / this.#stepMs));
    const cells = this.#cells;
    const first = index * POINT.WIDTH + POINT.TRACES;
    for (let i = 0; i < NUMBERS; i++)
      cells[first + i] = (cells[first + i] ?? 0) + (numbers[i] ?? 0);
    if (from === to) return;
    this.#latencies[index] = { part: latencies, from, to, before: this.#latencies[index] };
  }

  #pointOf(key: string | null, period: number): number {
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { key, points: new Map() };
      this.#groups.set(key, group);
    }
    const known = group.points.get(period);
    if (known !== undefined) return known;
    const index = this.#size++;
    group.points.set(period, index);
    this.#latencies.push(undefined);
    const at = index * POINT.WIDTH;
    if (at === this.#cells.length) {
      const grown = new Float64Array(2 * at);
      grown.set(this.#cells);
      this.#cells = grown;
    }
    this.#cells[at + POINT.TIME] = period * this.#stepMs;
    return index;
  }

  /** Whether there are numbers of a group at a time. */
  has(key: string | null, at: number): boolean {
    return this.#groups.get(key)?.points.has(Math.floor(at / this.#stepMs)) === true;
  }

  /** The number of points. */
  get size(): number {
    return this.#size;
  }

  /** A time without traces has no point, and a group without points is left out. */
  points(): PackedPoints {
    const packed = new Float64Array(this.#filled() * POINT.WIDTH);
    const [keys, ends]: [(string | null)[], number[]] = [[], []];
    let end = 0;
    for (const { key, points } of this.#groups.values()) {
      const begin = end;
      for (const [, index] of inOrder(points)) {
        const at = index * POINT.WIDTH;
        if (this.#cells[at + POINT.TRACES] === 0) continue;
        const to = end++ * POINT.WIDTH;
        for (let i = 0; i < POINT.P50; i++) packed[to + i] = this.#cells[at + i] ?? 0;
        let latencies = this.#latencies[index];
        for (; latencies !== undefined; latencies = latencies.before) {
          addPart(latencies.part, latencies.from, latencies.to);
        }
        takeQuantiles(QUANTILES, packed, to + POINT.P50);
      }
      if (end === begin) continue;
      keys.push(key);
      ends.push(end);
    }
    return { keys, ends, cells: packed };
  }

  /** The points with traces. */
  #filled(): number {
    let filled = 0;
    for (let i = 0; i < this.#size; i++) {
      if (this.#cells[i * POINT.WIDTH + POINT.TRACES] !== 0) filled++;
    }
    return filled;
  }
}

/** By period. Rows come in the order of time, so there is mostly nothing to sort. */
function inOrder(points: ReadonlyMap<number, number>): Iterable<readonly [number, number]> {
  let before = Number.NEGATIVE_INFINITY;
  for (const period of points.keys()) {
    if (period < before) return [...points].sort(([a], [b]) => a - b);
    before = period;
  }
  return points;
}
