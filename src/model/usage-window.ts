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
  const date = new Date(at);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months, 1);
}
