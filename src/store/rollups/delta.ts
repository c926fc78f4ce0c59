import { decodeJsonText } from '../../model/json/decode.ts';
import type { Contribution, RollupChange } from './contribution.ts';
import { contributionFromText, visitChanges } from './contribution.ts';
import type { LatencyHistogram } from './histogram.ts';
import { countPairs, pairsOf } from './histogram.ts';

/** The sum of the changes of a value in an hour. */
type Gain = {
  readonly hour: number;
  readonly field: number;
  readonly value: string;
  readonly numbers: number[];
  readonly latencies: LatencyHistogram;
};

/** Sums of changes by hour, field and value. A value whose changes cancel out has none. */
export class RollupDelta {
  readonly #gains: Gain[] = [];
  /** By hour, field and value: V8 looks each new key of a map up in its table of strings, which costs more than two more maps. */
  readonly #byHour = new Map<number, Map<number, Map<string, Gain>>>();

  /** Subtracts the former contribution of a trace and adds the new one; returns the text that its row keeps. */
  replace(before: string | null, after: Contribution): string {
    const text = JSON.stringify(after);
    if (before === text) return text;
    this.subtract(before);
    this.addContribution(after);
    return text;
  }

  /** As `replace`, for texts. */
  replaceText(before: string | null, after: string): void {
    if (before !== after) this.replace(before, contributionFromText(after));
  }

  subtract(before: string | null): void {
    if (before !== null) this.addContribution(contributionFromText(before), -1);
  }

  add([hour, field, value, numbers, latencies]: RollupChange): void {
    const gain = this.#gainOf(hour, field, value);
    addNumbers(gain.numbers, numbers);
    countPairs(gain.latencies, latencies);
  }

  addContribution(contribution: Contribution, sign: 1 | -1 = 1): void {
    visitChanges(contribution, (hour, field, value, sums, latencies) => {
      const gain = this.#gainOf(hour, field, value);
      const { numbers } = gain;
      numbers[0] = (numbers[0] ?? 0) + sign;
      for (let i = 0; i < sums.length; i++) {
        numbers[i + 1] = (numbers[i + 1] ?? 0) + sign * (sums[i] ?? 0);
      }
      countPairs(gain.latencies, latencies, sign);
    });
  }

  #gainOf(hour: number, field: number, value: string): Gain {
    const byValue = this.#byValue(hour, field);
    let gain = byValue.get(value);
    if (gain === undefined) {
      gain = { hour, field, value, numbers: [], latencies: new Map() };
      byValue.set(value, gain);
      this.#gains.push(gain);
    }
    return gain;
  }

  #byValue(hour: number, field: number): Map<string, Gain> {
    let byField = this.#byHour.get(hour);
    if (byField === undefined) {
      byField = new Map();
      this.#byHour.set(hour, byField);
    }
    let byValue = byField.get(field);
    if (byValue === undefined) {
      byValue = new Map();
      byField.set(field, byValue);
    }
    return byValue;
  }

  changes(): RollupChange[] {
    const changes: RollupChange[] = [];
    for (const { hour, field, value, numbers, latencies } of this.#gains) {
      if (latencies.size === 0 && isZero(numbers)) continue;
      changes.push([hour, field, value, numbers, pairsOf(latencies)]);
    }
    return changes;
  }
}

export function addNumbers(to: number[], numbers: readonly number[]): void {
  for (let i = 0; i < numbers.length; i++) to[i] = (to[i] ?? 0) + (numbers[i] ?? 0);
}

function isZero(numbers: readonly number[]): boolean {
  return numbers.every((number) => number === 0);
}

/** Records how the contributions of traces change. */
export type RollupRecorder = Pick<RollupDelta, 'replace' | 'subtract'>;

/** The changes of rollups by a write. The contributions of new traces stay texts: the fold and readers add them up. */
export class WrittenDelta implements RollupRecorder {
  readonly #added: string[] = [];
  readonly #changed = new RollupDelta();

  /** As that of `RollupDelta`. */
  replace(before: string | null, after: Contribution): string {
    if (before !== null) return this.#changed.replace(before, after);
    const text = JSON.stringify(after);
    this.#added.push(text);
    return text;
  }

  subtract(before: string | null): void {
    this.#changed.subtract(before);
  }

  stored(): StoredDelta[] {
    const { ADDED, CHANGES } = DELTA_KINDS;
    const changes = this.#changed.changes();
    return [
      ...(this.#added.length === 0 ? [] : [{ kind: ADDED, text: `[${this.#added.join(',')}]` }]),
      ...(changes.length === 0 ? [] : [{ kind: CHANGES, text: JSON.stringify(changes) }]),
    ];
  }
}

/** A row of `rollup_deltas`: the changes of a write, or the contributions of traces that are new, or gone. */
export type StoredDelta = { readonly kind: number; readonly text: string };

/** `ADDED` is in SQLite only: the processes that share a Postgres may be of two versions. */
export const DELTA_KINDS = { CHANGES: 1, SUBTRACTED: -1, ADDED: 2 } as const;

/** Adds a stored delta to a sum. */
export function addStored(sum: RollupDelta, { kind, text }: StoredDelta): void {
  if (kind === DELTA_KINDS.CHANGES) {
    for (const change of decodeJsonText(text) as RollupChange[]) sum.add(change);
    return;
  }
  const sign = kind === DELTA_KINDS.ADDED ? 1 : -1;
  for (const contribution of decodeJsonText(text) as Contribution[]) {
    sum.addContribution(contribution, sign);
  }
}

export function storedChanges(kind: number, text: string): RollupChange[] {
  if (kind === DELTA_KINDS.CHANGES) return decodeJsonText(text) as RollupChange[];
  const sum = new RollupDelta();
  addStored(sum, { kind, text });
  return sum.changes();
}
