/**
 * The number of a trace is the day of its first event × 2^38 plus a value of the sequence `trace_numbers`, so that a range
 * of numbers is a range of days, and partitions of the tables of traces are ranges of numbers. Traces of earlier versions
 * have numbers of the day 0.
 */

const DAY_MS = 86_400_000;
/** The sequence begins again at 1 after as many values. */
export const NUMBERS_A_DAY = 2 ** 38;
/** Its last number is the largest safe integer. */
const LAST_DAY = 2 ** 15 - 1;

/** The first number of the day of a time in milliseconds since the epoch. */
export function firstNumberOf(ms: number): number {
  const day = Math.floor(ms / DAY_MS);
  return Math.min(LAST_DAY, Math.max(0, day)) * NUMBERS_A_DAY;
}

/** The beginning of the day of a number, in milliseconds since the epoch. */
export function dayOfNumber(n: number): number {
  return Math.floor(n / NUMBERS_A_DAY) * DAY_MS;
}

/**
 * The numbers from the first to the last day of some traces: first, and the last plus one. A statement that finds rows by
 * `trace` in a join names them, so that the planner leaves out all partitions of other days. A range of days never looks
 * like a better way to the rows than the index of the join.
 */
export function daysOfTraces(traces: readonly number[]): [first: number, end: number] {
  let first = Number.MAX_SAFE_INTEGER;
  let last = 0;
  for (const n of traces) {
    first = Math.min(first, n);
    last = Math.max(last, n);
  }
  const end = Math.floor(last / NUMBERS_A_DAY + 1) * NUMBERS_A_DAY;
  return [
    Math.floor(first / NUMBERS_A_DAY) * NUMBERS_A_DAY,
    Math.min(end, Number.MAX_SAFE_INTEGER),
  ];
}
