import { decodeJsonText } from '../../model/json/decode.ts';
import type { Contribution, RollupChange } from './contribution.ts';
import { changesOfContribution, contributionFromText } from './contribution.ts';
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
  readonly #gains = new Map<string, Gain>();

  /** Subtracts the former contribution of a trace and adds the new one; returns the text that its row keeps. */
  replace(before: string | null, after: Contribution): string {
    const text = JSON.stringify(after);
    if (before === text) return text;
    this.subtract(before);
    for (const change of changesOfContribution(after)) this.add(change);
    return text;
  }

  /** As `replace`, for texts. */
  replaceText(before: string | null, after: string): void {
    if (before !== after) this.replace(before, contributionFromText(after));
  }

  subtract(before: string | null): void {
    if (before === null) return;
    for (const change of changesOfContribution(contributionFromText(before))) this.add(change, -1);
  }

  add([hour, field, value, numbers, latencies]: RollupChange, sign: 1 | -1 = 1): void {
    const key = `${hour} ${field} ${value}`;
    let gain = this.#gains.get(key);
    if (gain === undefined) {
      gain = { hour, field, value, numbers: [], latencies: new Map() };
      this.#gains.set(key, gain);
    }
    addNumbers(gain.numbers, numbers, sign);
    countPairs(gain.latencies, latencies, sign);
  }

  changes(): RollupChange[] {
    const changes: RollupChange[] = [];
    for (const { hour, field, value, numbers, latencies } of this.#gains.values()) {
      if (latencies.size === 0 && isZero(numbers)) continue;
      changes.push([hour, field, value, numbers, pairsOf(latencies)]);
    }
    return changes;
  }
}

export function addNumbers(to: number[], numbers: readonly number[], sign = 1): void {
  for (let i = 0; i < numbers.length; i++) to[i] = (to[i] ?? 0) + sign * (numbers[i] ?? 0);
}

function isZero(numbers: readonly number[]): boolean {
  return numbers.every((number) => number === 0);
}

/** A row of `rollup_deltas`: the changes of a write, or the contributions of traces that are gone. */
export type StoredDelta = { readonly kind: number; readonly text: string };

export const DELTA_KINDS = { CHANGES: 1, SUBTRACTED: -1 } as const;

/** Adds a stored delta to a sum. */
export function addStored(sum: RollupDelta, { kind, text }: StoredDelta): void {
  for (const change of storedChanges(kind, text)) sum.add(change);
}

export function storedChanges(kind: number, text: string): RollupChange[] {
  if (kind === DELTA_KINDS.CHANGES) return decodeJsonText(text) as RollupChange[];
  const subtracted = new RollupDelta();
  for (const contribution of decodeJsonText(text) as Contribution[]) {
    for (const change of changesOfContribution(contribution)) subtracted.add(change, -1);
  }
  return subtracted.changes();
}
