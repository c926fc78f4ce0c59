/** The windows in which usage is counted: UTC calendar months and clock hours. */

export const HOUR_MS = 3_600_000;

/** The month and the hour of a moment. */
export type Window = {
  /** First moment, in milliseconds since the epoch. */
  readonly month: number;
  /** Hours since the epoch. */
  readonly hour: number;
  /** Milliseconds since the epoch. */
  readonly monthEnd: number;
  readonly hourEnd: number;
};

export function windowAt(at: number): Window {
  const hour = Math.floor(at / HOUR_MS);
  const hourEnd = (hour + 1) * HOUR_MS;
  return { month: monthStart(at), hour, monthEnd: monthStart(at, 1), hourEnd };
}

/** The first moment of a UTC calendar month, in milliseconds since the epoch. */
export function monthStart(at: number, months = 0): number {
  if (months === 0 && at >= known.start && at < known.end) return known.start;
  const date = new Date(at);
  const start = (later: number) => Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
  if (months === 0) known = { start: start(0), end: start(1) };
  return start(months);
}

/** The month that was asked for last: each request asks for that of the present several times. */
let known = { start: 0, end: 0 };
