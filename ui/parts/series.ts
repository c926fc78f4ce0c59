/** One line or one set of bars of a chart: a value for each time, null where there is none. */
export type Series = {
  /** Unique in a chart; labels may be equal. */
  readonly id: string;
  readonly label: string;
  readonly values: readonly (number | null)[];
};

/** A value of a group within one period. */
export type Sample = { readonly time: number; readonly group: Group; readonly value: number };

/** The value that the samples of a group have; null for those without one. */
export type Group = string | null;

/** The id and the label of the series that sums up the small groups. */
export const OTHERS = 'Others';

/** The id of a group. No value of a client has that of another group, or `OTHERS`. */
export function idOf(group: Group): string {
  return group === null ? 'no value' : `value ${group}`;
}

/** Distances of two labels on an axis of counts, ascending: a label between two counts means nothing. */
export const WHOLE_STEPS: number[] = Array.from({ length: 15 }, (_, power) => power)
  .flatMap((power) => [1, 2, 2.5, 5].map((step) => step * 10 ** power))
  .filter(Number.isInteger);

/** Whether all values are whole numbers. */
export function isWhole(series: readonly Series[]): boolean {
  return series.every(({ values }) => values.every((value) => Number.isInteger(value ?? 0)));
}

/** The indexes of values without a neighbour, to which no line leads. */
export function aloneIn(values: ArrayLike<number | null | undefined>): number[] {
  const isAt = (index: number): boolean => typeof values[index] === 'number';
  return Array.from({ length: values.length }, (_, index) => index).filter(
    (index) => isAt(index) && !isAt(index - 1) && !isAt(index + 1),
  );
}

/** The starts of all periods of `stepMs` between `from` and `to`, milliseconds since 1970; `to` is exclusive. */
export function periodsBetween(from: number, to: number, stepMs: number): readonly number[] {
  const first = Math.floor(from / stepMs) * stepMs;
  const length = Math.max(0, Math.ceil((to - first) / stepMs));
  return Array.from({ length }, (_, index) => first + index * stepMs);
}

/**
 * One series a group, the group with the largest sum first. The groups past `most` are summed up in `OTHERS`. A period
 * without a sample is zero.
 */
export function seriesOf(
  times: readonly number[],
  samples: readonly Sample[],
  labelOf: (group: Group) => string = String,
  most = 5,
): readonly Series[] {
  const sums = new Map<Group, number>();
  for (const { group, value } of samples) sums.set(group, (sums.get(group) ?? 0) + value);
  const ranked = [...sums].sort(([, a], [, b]) => b - a).map(([group]) => group);
  const isCut = ranked.length > most + 1;
  const shown = (isCut ? ranked.slice(0, most) : ranked).map((group) => ({
    id: idOf(group),
    label: labelOf(group),
  }));
  if (isCut) shown.push({ id: OTHERS, label: OTHERS });
  const rows = new Map(ranked.map((group, rank) => [group, Math.min(rank, shown.length - 1)]));
  const columns = new Map(times.map((time, index) => [time, index]));
  const values = shown.map(() => times.map(() => 0));
  for (const { time, group, value } of samples) {
    const row = values[rows.get(group) ?? -1];
    const column = columns.get(time);
    if (row !== undefined && column !== undefined) row[column] = (row[column] ?? 0) + value;
  }
  return shown.map((each, index) => ({ ...each, values: values[index] ?? [] }));
}

/** The tops of stacked bars, the last series at the bottom: each is its own value and those of the series after it. */
export function stacked(series: readonly Series[]): readonly (readonly number[])[] {
  const tops: number[][] = [];
  let below: readonly number[] = [];
  for (const { values } of [...series].reverse()) {
    below = values.map((value, index) => (value ?? 0) + (below[index] ?? 0));
    tops.unshift([...below]);
  }
  return tops;
}
