import type { TraceFilter } from '../store.ts';
import type { RollupChange } from './contribution.ts';
import type { ContributionPage } from './contribution-page.ts';
import type { RollupField } from './fields.ts';
import { OBSERVATION_FIELDS, OTHER, OVERFLOW, ROLLUP_FIELDS } from './fields.ts';
import { DAY, HOUR, periodOf } from './fold.ts';
import type { PackedPoints } from './points.ts';
import { PointSums } from './points.ts';

/** Hours since the epoch; `to` is exclusive. */
export type Hours = { readonly from: number; readonly to: number };

/** Values of a field that begin with a text, and their traces. */
export type FacetAsked = {
  readonly field: RollupField;
  readonly hours: Hours;
  readonly prefix: string;
  /** So many of the most used values are enough. */
  readonly most?: number;
};

export type FacetPart = {
  readonly values: readonly FacetCount[];
  /** The values that `most` leaves out. */
  readonly left: number;
  /** Traces whose values are counted together, without their names. */
  readonly others: number;
  /** Milliseconds of work of the store. */
  readonly spentMs: number;
};
export type FacetCount = readonly [value: string, traces: number];

/** More traces first; values with equally many are in the order of their text. */
export function byUse(
  [a, first]: readonly [...FacetCount, ...unknown[]],
  [b, second]: readonly [...FacetCount, ...unknown[]],
): number {
  return second - first || (a < b ? -1 : 1);
}

export type StatsAsked = {
  readonly field: RollupField;
  /** The wanted values; null for all of the field. */
  readonly values: readonly string[] | null;
  /** Whether each value has points of its own, and those without a row of their own have points together. */
  readonly isGrouped: boolean;
  /** The values are those of a query: the ones without a row of their own do not match it, and have no points. */
  readonly isFiltered?: boolean;
  readonly hours: Hours;
  /** The hours of a point: `HOUR` or `DAY`. */
  readonly step: number;
};

export type StatsRows = {
  readonly points: PackedPoints;
  /** A wanted value may be counted among the values without a row of their own. */
  readonly isIncomplete: boolean;
};

/** Sums by hour and day. A read includes the changes that have not been added to the rows yet. */
export type RollupReads = {
  facet(projectId: string, asked: FacetAsked): Promise<FacetPart>;
  stats(projectId: string, asked: StatsAsked): Promise<StatsRows>;
  /** Matching traces that have contributed, as `listTraces` finds them. */
  listContributions(projectId: string, filter: TraceFilter): Promise<ContributionPage>;
};

/** Rows of one step of a range. */
export type RollupSpan = { readonly step: number; readonly from: number; readonly to: number };

/** The rows that cover a range: days where it has whole ones, hours for the rest. */
export function spansOf({ from, to }: Hours): RollupSpan[] {
  const firstDay = Math.ceil(from / DAY) * DAY;
  const lastDay = periodOf(DAY, to);
  if (firstDay >= lastDay) return [{ step: HOUR, from, to }];
  return [
    { step: HOUR, from, to: firstDay },
    { step: DAY, from: firstDay, to: lastDay },
    { step: HOUR, from: lastDay, to },
  ].filter((span) => span.from < span.to);
}

/** The rows that cover the points of statistics. */
export function statsSpans({ step, hours }: StatsAsked): RollupSpan[] {
  return step === DAY ? spansOf(hours) : [{ step: HOUR, ...hours }];
}

/** A row of `rollups` as statistics read it. */
export type StatsRow = {
  readonly field: number;
  readonly start: number;
  readonly value: string;
  readonly numbers: ArrayLike<number>;
  /** As they are stored. */
  readonly latencies: Uint8Array;
  /** The bytes of them in `latencies`, if it has others too; `to` is exclusive. */
  readonly from?: number;
  readonly to?: number;
};

/** Adds up rows and changes for points. */
export class StatsSum {
  readonly #asked: StatsAsked;
  readonly #field: number;
  readonly #wanted: ReadonlySet<string> | null;
  readonly #points: PointSums;
  /** Periods with values that have no row of their own. */
  readonly #crowded = new Set<number>();
  /** Points at times of which the rows of further values are one. */
  readonly #full = new Set<number>();
  /** Values by the period of their rows. */
  readonly #found = new Map<number, Set<string>>();
  #hasUnnamed = false;

  constructor(asked: StatsAsked) {
    this.#asked = asked;
    this.#field = ROLLUP_FIELDS[asked.field];
    this.#wanted = asked.values === null ? null : new Set(asked.values);
    this.#points = new PointSums(asked.step * HOUR_MS);
  }

  addRow({ field, start, value, numbers, latencies, from, to }: StatsRow): void {
    if (field < 0) this.#crowd(start, value);
    else this.#note(start, value);
    const key = this.#keyOf(field, value);
    if (key !== undefined) this.#points.add(key, start * HOUR_MS, numbers, latencies, from, to);
  }

  addChange([hour, field, value, numbers, pairs]: RollupChange): void {
    const { from, to } = this.#asked.hours;
    if (Math.abs(field) !== this.#field || hour < from || hour >= to) return;
    const key = this.#keyOf(this.#hasOwnRow(hour, field, value) ? field : -this.#field, value);
    if (key !== undefined) this.#points.add(key, hour * HOUR_MS, numbers, pairs);
  }

  /** A change of a value that the fold counts among others belongs there already: alone it might subtract what is not there. */
  #hasOwnRow(hour: number, field: number, value: string): boolean {
    const { step, isGrouped } = this.#asked;
    if (!isGrouped || field < 0 || !this.#full.has(periodOf(step, hour))) return true;
    // The rows of other values are not read.
    if (this.#wanted?.has(value) === false) return true;
    return this.#points.has(value, hour * HOUR_MS);
  }

  /** Undefined for a row that is not wanted. */
  #keyOf(field: number, value: string): string | null | undefined {
    const { isGrouped, isFiltered = false } = this.#asked;
    if (field < 0) return isGrouped && !isFiltered ? null : undefined;
    if (this.#wanted !== null && !this.#wanted.has(value)) return undefined;
    return isGrouped ? value : null;
  }

  #crowd(start: number, value: string): void {
    this.#crowded.add(start);
    if (value === OVERFLOW) this.#full.add(periodOf(this.#asked.step, start));
    if (value === OTHER && isOfObservations(this.#asked.field)) this.#hasUnnamed = true;
  }

  #note(start: number, value: string): void {
    if (this.#wanted === null) return;
    const found = this.#found.get(start);
    if (found === undefined) this.#found.set(start, new Set([value]));
    else found.add(value);
  }

  rows(): StatsRows {
    const wanted = this.#wanted;
    const isMissing = (start: number): boolean =>
      wanted !== null && (this.#found.get(start)?.size ?? 0) < wanted.size;
    const isIncomplete =
      wanted !== null && (this.#hasUnnamed || [...this.#crowded].some(isMissing));
    return { points: this.#points.points(), isIncomplete };
  }
}

function isOfObservations(field: RollupField): boolean {
  return OBSERVATION_FIELDS.some((one) => one === field);
}

const HOUR_MS = 3_600_000;

/** A row of a value in a period of a span of a facet. */
export type FacetRow = { readonly step: number; readonly start: number; readonly value: string };

/** The changes of a value in a period with a row of further values. */
type Undecided = { readonly row: FacetRow; traces: number };

/**
 * Adds up the traces of values: first the rows, then the changes, then the rows that decide where undecided changes count. A change of a
 * value that the fold counts among others belongs there already: alone it might subtract what is not there.
 */
export class FacetSum {
  readonly #asked: FacetAsked;
  readonly #field: number;
  readonly #spans: readonly RollupSpan[];
  readonly #values = new Map<string, number>();
  /** The beginnings of periods with a row of further values. Those of hours and of days differ: the spans have no hour in common. */
  readonly #full = new Set<number>();
  readonly #undecided = new Map<string, Undecided>();
  #others = 0;
  #left = 0;

  constructor(asked: FacetAsked) {
    this.#asked = asked;
    this.#field = ROLLUP_FIELDS[asked.field];
    this.#spans = spansOf(asked.hours);
  }

  /** Traces with a value that begins with the prefix. */
  add(value: string, traces: number): void {
    this.#values.set(value, (this.#values.get(value) ?? 0) + traces);
  }

  /** A row of values without a row of their own: `OTHER` or `OVERFLOW`. */
  addOthers(start: number, value: string, traces: number): void {
    this.#others += traces;
    if (value === OVERFLOW) this.#full.add(start);
  }

  addChange(change: RollupChange): void {
    const [, field, value, [traces = 0]] = change;
    const row = this.#rowOf(change);
    if (row === undefined) return;
    if (field < 0) this.#others += traces;
    else if (this.#full.has(row.start)) this.#postpone(row, traces);
    else this.#addMatching(value, traces);
  }

  #postpone(row: FacetRow, traces: number): void {
    const name = nameOf(row);
    const undecided = this.#undecided.get(name);
    if (undecided === undefined) this.#undecided.set(name, { row, traces });
    else undecided.traces += traces;
  }

  #addMatching(value: string, traces: number): void {
    if (value.startsWith(this.#asked.prefix)) this.add(value, traces);
  }

  /** The rows of undecided changes: those that the table has are added by `addOwn`. */
  undecided(): FacetRow[] {
    return [...this.#undecided.values()].map(({ row }) => row);
  }

  /** The table has this row: the undecided changes of its value count for the value. */
  addOwn(row: Omit<FacetRow, 'step'>): void {
    const name = nameOf(row);
    this.#addMatching(row.value, this.#undecided.get(name)?.traces ?? 0);
    this.#undecided.delete(name);
  }

  /** Whether the change may count for a value that is asked for. */
  isAbout(change: RollupChange): boolean {
    const [, field, value] = change;
    return field > 0 && value.startsWith(this.#asked.prefix) && this.#rowOf(change) !== undefined;
  }

  /** The row of the value of a change; undefined for another field or time. */
  #rowOf([hour, field, value]: RollupChange): FacetRow | undefined {
    if (Math.abs(field) !== this.#field) return undefined;
    const span = this.#spans.find(({ from, to }) => hour >= from && hour < to);
    return span && { step: span.step, start: periodOf(span.step, hour), value };
  }

  /** Values with traces that were not added. */
  leave(values: number): void {
    this.#left += values;
  }

  /** The values that were added. */
  get size(): number {
    return this.#values.size;
  }

  part(): Omit<FacetPart, 'spentMs'> {
    const { most } = this.#asked;
    const left = this.#left;
    let others = this.#others;
    for (const { traces } of this.#undecided.values()) others += traces;
    const values = [...this.#values].filter(([, traces]) => traces > 0);
    if (most === undefined || values.length <= most) return { values, left, others };
    return { values: values.sort(byUse).slice(0, most), left: left + values.length - most, others };
  }
}

function nameOf({ start, value }: Omit<FacetRow, 'step'>): string {
  return `${start} ${value}`;
}
