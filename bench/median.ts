/** The middle value; of an even number of values, the upper of the two in the middle. 0 without values. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
}
