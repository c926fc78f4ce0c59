import type { RollupChange } from './contribution.ts';
import { addNumbers } from './delta.ts';
import { MAX_VALUES, OVERFLOW } from './fields.ts';
import type { LatencyHistogram } from './histogram.ts';
import { countPairs } from './histogram.ts';

/** The periods of rollups, in hours. */
export const HOUR = 1;
export const DAY = 24;

/** The key of a row of `rollups` within its project. */
export type RollupKey = {
  /** Hours of the period. */
  readonly step: number;
  readonly field: number;
  /** The first hour of the period. */
  readonly start: number;
  readonly value: string;
};

/** The numbers of a row of `rollups`, which a fold changes. */
export type RollupSums = { readonly numbers: number[]; readonly latencies: LatencyHistogram };

export type RollupRow = RollupKey & RollupSums;

/** The rows of a project, as they are stored. */
export type RollupTable = {
  find(key: RollupKey): RollupSums | undefined;
  /** The rows of a field in a period. */
  valuesOf(block: Omit<RollupKey, 'value'>): number;
};

export type FoldedRows = { readonly saved: RollupRow[]; readonly removed: RollupKey[] };

/** A row that a fold changed; `isStored`: the table has it. */
type TouchedRow = RollupRow & { readonly isStored: boolean };

/**
 * Adds changes to the rows of their hours and days.
 *
 * A value gets a row while its period has less than `MAX_VALUES` of its field and no row of `OVERFLOW`; then, and for as
 * long as the period has such a row, all new values are counted there. So a value that has contributed is counted in one
 * row until its last contribution is subtracted, and subtracting finds that row. A row without traces is removed.
 */
export function foldChanges(changes: readonly RollupChange[], table: RollupTable): FoldedRows {
  const fold = new Fold(table);
  for (const change of changes) {
    fold.add(HOUR, change);
    fold.add(DAY, change);
  }
  return fold.result();
}

/** The row that has the values beyond the limit. */
export function overflowOf({ step, field, start }: Omit<RollupKey, 'value'>): RollupKey {
  return { step, field: -field, start, value: OVERFLOW };
}

export function periodOf(step: number, hour: number): number {
  return Math.floor(hour / step) * step;
}

export function nameOfRollup({ step, field, start, value }: RollupKey): string {
  return `${nameOfBlock(step, field, start)} ${value}`;
}

function nameOfBlock(step: number, field: number, start: number): string {
  return `${step} ${field} ${start}`;
}

class Fold {
  readonly #table: RollupTable;
  readonly #touched = new Map<string, TouchedRow>();
  /** Rows by field and period, if a value without a row asked for them. */
  readonly #values = new Map<string, number>();

  constructor(table: RollupTable) {
    this.#table = table;
  }

  add(step: number, [hour, field, value, numbers, latencies]: RollupChange): void {
    const row = this.#rowOf({ step, field, start: periodOf(step, hour), value });
    addNumbers(row.numbers, numbers);
    countPairs(row.latencies, latencies);
  }

  #rowOf(key: RollupKey): TouchedRow {
    const known = this.#find(key);
    if (known !== undefined) return known;
    // Rows of negative fields are few, and need no limit.
    if (key.field <= 0) return this.#create(key);
    const overflow = overflowOf(key);
    const rest = this.#find(overflow);
    if (rest !== undefined) return rest;
    const block = nameOfBlock(key.step, key.field, key.start);
    const values = this.#values.get(block) ?? this.#table.valuesOf(key);
    if (values >= MAX_VALUES) return this.#create(overflow);
    this.#values.set(block, values + 1);
    return this.#create(key);
  }

  #find(key: RollupKey): TouchedRow | undefined {
    const name = nameOfRollup(key);
    const touched = this.#touched.get(name);
    if (touched !== undefined) return touched;
    const stored = this.#table.find(key);
    if (stored === undefined) return undefined;
    const row = { ...key, ...stored, isStored: true };
    this.#touched.set(name, row);
    return row;
  }

  #create(key: RollupKey): TouchedRow {
    const row = { ...key, numbers: [], latencies: new Map(), isStored: false };
    this.#touched.set(nameOfRollup(key), row);
    return row;
  }

  result(): FoldedRows {
    const saved: RollupRow[] = [];
    const removed: RollupKey[] = [];
    for (const row of this.#touched.values()) {
      const [traces = 0] = row.numbers;
      if (traces > 0) saved.push(row);
      else if (row.isStored) removed.push(row);
    }
    return { saved, removed };
  }
}
