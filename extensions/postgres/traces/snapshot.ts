import type { CopyKey } from '../../../src/store/rows/copies.ts';
import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey } from '../../../src/store/rows/observation-row.ts';
import type { EventRow } from '../../../src/store/rows/observation-write.ts';
import type { TraceTableRow } from './rows.ts';

/** A row of `observations`, as it is in the table or will be. */
export type Entry = {
  readonly n: number;
  readonly key: Key;
  readonly trace: number;
  readonly row: ObservationRow;
  readonly state: RowState<string>;
};

/** A trace of a write. `at`: when its first event was received, in milliseconds since the epoch. */
export type TraceName = { readonly key: Key; readonly longId: string | null; readonly at: number };

/** A trace without a row yet: the write inserts it with its summary. */
export type NewTrace = TraceName & { readonly n: number };

export type PendingUpdate = EventRow<string>;
export type WaitingRun = { readonly key: Key; readonly parent: Key };

/**
 * The rows that a write has read so far. A name that is missing in a map has not been read; a row that does not exist
 * is null, or an empty list. Keys are by name (`nameOfKey`).
 */
export type Snapshot = {
  /** Numbers of traces. */
  readonly numbers: Map<string, number | null>;
  /** Numbers of traces that exist and that the transaction has not locked yet. */
  readonly unlocked: Map<string, number>;
  /** Traces by number, locked until the end of the transaction. */
  readonly traces: Map<number, TraceTableRow>;
  /** Traces whose key this transaction inserted, by number: nothing else has rows of them. */
  readonly empty: Map<number, NewTrace>;
  /** Observations by `placeName`. */
  readonly entries: Map<string, Entry | null>;
  /** The newest observations of a key, in any trace. */
  readonly runs: Map<string, readonly Entry[]>;
  /** Some observations with a cell in `copy`. */
  readonly copies: Map<CopyKey, readonly Entry[]>;
  /** All observations of a trace, with only the cells that sums need. */
  readonly whole: Map<number, readonly Entry[]>;
  /** Updates that wait for a run, by its key. */
  readonly pending: Map<string, readonly PendingUpdate[]>;
  /** Runs that wait for their parent's trace, by their own key, and by their parent's. */
  readonly waiting: Map<string, WaitingRun | null>;
  readonly children: Map<string, readonly WaitingRun[]>;
};

export function emptySnapshot(): Snapshot {
  return {
    numbers: new Map(),
    unlocked: new Map(),
    traces: new Map(),
    empty: new Map(),
    entries: new Map(),
    runs: new Map(),
    copies: new Map(),
    whole: new Map(),
    pending: new Map(),
    waiting: new Map(),
    children: new Map(),
  };
}

export function placeName(trace: number, key: Key): string {
  return `${trace} ${nameOfKey(key)}`;
}

/** The rows that a write has to read next, by the map of the snapshot that they belong to. */
export class ReadSet {
  readonly numbers = new Map<string, Key>();
  readonly traces = new Set<number>();
  readonly entries = new Map<string, Pick<Entry, 'trace' | 'key'>>();
  readonly runs = new Map<string, Key>();
  readonly copies = new Set<CopyKey>();
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
      this.copies,
      this.whole,
      this.pending,
      this.waiting,
      this.children,
    ].every(({ size }) => size === 0);
  }

  addEntry(trace: number, key: Key): void {
    this.entries.set(placeName(trace, key), { trace, key });
  }

  addKey(to: 'numbers' | 'runs' | 'pending' | 'waiting' | 'children', key: Key): void {
    this[to].set(nameOfKey(key), key);
  }
}
