/** Milliseconds since 1970 of an ISO 8601 time in UTC, with its microseconds; NaN if there is none. */
export function instantOf(time: string | null | undefined): number {
  if (time === null || time === undefined) return Number.NaN;
  const ms = Date.parse(time);
  // `Date` ends at milliseconds; a double keeps about a quarter of a microsecond beside them.
  const finer = /\.\d{3}(\d+)/.exec(time)?.[1];
  return finer === undefined ? ms : ms + Number(`0.${finer}`);
}
