import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey } from '../../../src/store/rows/observation-row.ts';
import type { Cell } from './cells.ts';

/** An observation as it stands in the tables, or will. */
export type Entry = {
  readonly n: number;
  readonly key: Key;
  readonly trace: number;
  readonly row: ObservationRow;
  readonly state: RowState<string>;
};

export type PendingUpdate = readonly [row: ObservationRow, state: RowState<string>];
export type WaitingRun = { readonly key: Key; readonly parent: Key };

/**
 * What a write has read of its project so far. A name that is missing in a map was not asked for; what is not
 * there stands in it as null, or as an empty list. Keys are by name (`nameOfKey`).
 */
export type Facts = {
  /** Numbers of traces. */
  readonly numbers: Map<string, number | null>;
  /** Traces by number, each as its cells (TRACE_CELLS); locked until the end of the transaction. */
  readonly traces: Map<number, readonly Cell[]>;
  /** When those were made that this transaction made: nothing can be in them yet. */
  readonly empty: Map<number, number>;
  /** Observations by `placeName`. */
  readonly entries: Map<string, Entry | null>;
  /** Observations of a key wherever they stand, the newest few. */
  readonly runs: Map<string, readonly Entry[]>;
  /** All observations of a trace, without what no sum is made of. */
  readonly whole: Map<number, readonly Entry[]>;
  readonly pending: Map<string, readonly PendingUpdate[]>;
  /** Waiting runs by their own key, and by their parent's. */
  readonly waiting: Map<string, WaitingRun | null>;
  readonly children: Map<string, readonly WaitingRun[]>;
};

export function noFacts(): Facts {
  return {
    numbers: new Map(),
    traces: new Map(),
    empty: new Map(),
    entries: new Map(),
    runs: new Map(),
    whole: new Map(),
    pending: new Map(),
    waiting: new Map(),
    children: new Map(),
  };
}

export function placeName(trace: number, key: Key): string {
  return `${trace} ${nameOfKey(key)}`;
}

/** What is to be read. */
export class Wanted {
  readonly numbers = new Map<string, Key>();
  readonly traces = new Set<number>();
  readonly entries = new Map<string, readonly [trace: number, key: Key]>();
  readonly runs = new Map<string, Key>();
  readonly whole = new Set<number>();
  readonly pending = new Map<string, Key>();
  readonly waiting = new Map<string, Key>();
  readonly children = new Map<string, Key>();

  get isEmpty(): boolean {
    return [
      this.numbers,
      this.traces,
      this.entries,
      this.runs,
      this.whole,
      this.pending,
      this.waiting,
      this.children,
    ].every(({ size }) => size === 0);
  }

  entry(trace: number, key: Key): void {
    this.entries.set(placeName(trace, key), [trace, key]);
  }

  key(of: 'numbers' | 'runs' | 'pending' | 'waiting' | 'children', key: Key): void {
    this[of].set(nameOfKey(key), key);
  }
}
