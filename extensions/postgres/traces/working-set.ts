import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey } from '../../../src/store/rows/observation-row.ts';
import type {
  NumberedRow,
  ObservationTable,
  WaitingRuns,
} from '../../../src/store/rows/observation-write.ts';
import { TraceState } from '../../../src/store/rows/trace-sums.ts';
import type { Cell } from './cells.ts';
import { observationCells } from './cells.ts';
import type { Entry, Facts, PendingUpdate, WaitingRun } from './facts.ts';
import { placeName, Wanted } from './facts.ts';
import { traceCells, traceStateOf } from './state.ts';

/** Thrown where nothing sensible can be answered before what is wanted was read. */
const NOT_READ = new Error('what a write asked for is not read yet');

export type NewTrace = {
  readonly n: number;
  readonly key: Key;
  readonly longId: string | null;
  readonly at: number;
};

export type Changes = {
  readonly inserted: readonly Entry[];
  readonly changed: readonly { readonly before: Entry; readonly now: Entry }[];
  readonly removed: readonly Entry[];
};

/**
 * The tables as one write sees and changes them, in memory: what was read, and what it did since. What it
 * asks for and was not read counts as absent and is noted in `wanted`; then the write is done again with a
 * new working set over more facts.
 */
export class WorkingSet implements ObservationTable<string>, WaitingRuns {
  readonly wanted = new Wanted();
  readonly newTraces = new Map<number, NewTrace>();
  readonly saved = new Map<number, TraceState>();
  readonly removedTraces: number[] = [];
  readonly pairs = new Map<string, readonly [batch: string, trace: number]>();
  readonly copiedPairs: (readonly [from: number, to: number])[] = [];
  readonly addedPending: PendingUpdate[] = [];
  readonly takenPending: Key[] = [];
  readonly addedWaiting = new Map<string, WaitingRun & { readonly receivedAt: number }>();
  readonly droppedWaiting = new Map<string, Key>();
  readonly #facts: Facts;
  /** Whether runs without a trace are looked for at all. */
  readonly #withRuns: boolean;
  readonly #numbers: Iterator<number>;
  readonly #traceNumbers: Iterator<number>;
  readonly #newNumbers = new Map<string, number>();
  /** As they are now, by trace and key, and by number; null where one was moved away or removed. */
  readonly #entries = new Map<number, Map<string, Entry | null>>();
  readonly #byNumber = new Map<number, Entry>();
  readonly #removed = new Set<number>();
  /** Of those, as they stand in the tables. */
  readonly #read = new Map<number, Entry>();
  /** The others, which this write inserted, by key; where runs are looked for. */
  readonly #insertedRuns = new Map<string, number[]>();

  constructor(
    facts: Facts,
    withRuns: boolean,
    numbers: readonly number[],
    traceNumbers: readonly number[],
  ) {
    this.#facts = facts;
    this.#withRuns = withRuns;
    this.#numbers = numbers[Symbol.iterator]();
    this.#traceNumbers = traceNumbers[Symbol.iterator]();
  }

  /** What became of observations: new ones, those that were read as they are now, and those that went. */
  changes(): Changes {
    const inserted: Entry[] = [];
    const changed: { before: Entry; now: Entry }[] = [];
    for (const now of this.#byNumber.values()) {
      if (this.#removed.has(now.n)) continue;
      const before = this.#read.get(now.n);
      if (before === undefined) inserted.push(now);
      else if (!isSame(before, now)) changed.push({ before, now });
    }
    const removed = [...this.#removed].flatMap((n) => this.#read.get(n) ?? []);
    return { inserted, changed, removed };
  }

  /** Traces as they are now, where that is another than before, as cells. */
  changedTraces(): Cell[][] {
    return [...this.saved.values()].map(traceCells).filter((now) => {
      const before = this.#facts.traces.get(Number(now[0]));
      if (before === undefined) return true;
      return !traceCells(traceStateOf(before)).every((cell, i) => cell === now[i]);
    });
  }

  batchId(batch: string): string {
    return batch;
  }

  insert(trace: number, row: ObservationRow, state: RowState<string>): number | undefined {
    const [key] = row;
    if (this.#find(trace, key) !== null) return undefined;
    const n = this.#next(this.#numbers);
    this.#put({ n, key, trace, row, state });
    if (this.#withRuns) this.#noteRun(nameOfKey(key), n);
    return n;
  }

  #noteRun(name: string, n: number): void {
    const known = this.#insertedRuns.get(name);
    if (known === undefined) this.#insertedRuns.set(name, [n]);
    else known.push(n);
  }

  update(n: number, row: ObservationRow, state: RowState<string>): void {
    const { key, trace } = this.#numbered(n);
    this.#put({ n, key, trace, row, state });
  }

  row(trace: number, key: Key): NumberedRow<string> {
    const entry = this.#find(trace, key);
    if (entry === null) throw NOT_READ;
    return [entry.n, entry.row, entry.state];
  }

  rowsOf(trace: number): NumberedRow<string>[] {
    const read =
      this.#facts.whole.get(trace) ??
      (this.#isEmpty(trace) ? [] : this.#absent(() => this.wanted.whole.add(trace)));
    const entries = new Map(read.map((entry) => [entry.n, entry]));
    for (const entry of this.#byNumber.values()) {
      if (entry.trace === trace) entries.set(entry.n, entry);
      else entries.delete(entry.n);
    }
    for (const n of this.#removed) entries.delete(n);
    return [...entries.values()].map(({ n, row, state }) => [n, row, state]);
  }

  traceNumber(_project: string, key: Key): number | undefined {
    const name = nameOfKey(key);
    const made = this.#newNumbers.get(name);
    if (made !== undefined) return made;
    const number = this.#facts.numbers.get(name);
    if (number === undefined) this.wanted.key('numbers', key);
    return number ?? undefined;
  }

  addTrace(_project: string, key: Key, longId: string | null, at: number): number {
    const n = this.#next(this.#traceNumbers);
    this.#newNumbers.set(nameOfKey(key), n);
    this.newTraces.set(n, { n, key, longId, at });
    return n;
  }

  traceState(n: number): TraceState {
    const saved = this.saved.get(n);
    if (saved !== undefined) return saved;
    const at = this.#facts.empty.get(n) ?? this.newTraces.get(n)?.at;
    if (at !== undefined) return new TraceState(n, at);
    const cells = this.#facts.traces.get(n);
    if (cells !== undefined) return traceStateOf(cells);
    this.wanted.traces.add(n);
    throw NOT_READ;
  }

  saveTrace(trace: TraceState): void {
    this.saved.set(trace.n, trace);
  }

  removeTrace(n: number): void {
    this.removedTraces.push(n);
  }

  traceOfRun(_project: string, key: Key): number | undefined {
    if (typeof key === 'string' && key.startsWith(':')) return undefined;
    const name = nameOfKey(key);
    const read = this.#facts.runs.get(name) ?? this.#absent(() => this.wanted.key('runs', key));
    let newest: Entry | undefined;
    for (const n of [...read.map((entry) => entry.n), ...(this.#insertedRuns.get(name) ?? [])]) {
      if (this.#removed.has(n)) continue;
      const entry = this.#byNumber.get(n) ?? read.find((one) => one.n === n);
      if (entry !== undefined && n >= (newest?.n ?? 0)) newest = entry;
    }
    return newest?.trace;
  }

  move(n: number, trace: number, key: Key): boolean {
    if (this.#find(trace, key) !== null) return false;
    const entry = this.#numbered(n);
    this.#entriesOf(entry.trace).set(nameOfKey(key), null);
    this.#put({ ...entry, trace });
    return true;
  }

  remove(n: number): void {
    const { trace, key } = this.#numbered(n);
    this.#entriesOf(trace).set(nameOfKey(key), null);
    this.#removed.add(n);
  }

  addPair(batch: string, trace: number): void {
    this.pairs.set(`${trace} ${batch}`, [batch, trace]);
  }

  copyPairs(from: number, to: number): void {
    this.copiedPairs.push([from, to]);
  }

  hasPending(): boolean {
    return this.#withRuns;
  }

  addPending(_project: string, row: ObservationRow, state: RowState<string>): void {
    this.addedPending.push([row, state]);
  }

  takePending(_project: string, key: Key): [ObservationRow, RowState<string>][] {
    const name = nameOfKey(key);
    const added = this.addedPending.filter(([row]) => nameOfKey(row[0]) === name);
    for (const one of added) this.addedPending.splice(this.addedPending.indexOf(one), 1);
    if (this.takenPending.some((taken) => nameOfKey(taken) === name)) return added.map(pairOf);
    const read =
      this.#facts.pending.get(name) ?? this.#absent(() => this.wanted.key('pending', key));
    if (read.length > 0) this.takenPending.push(key);
    return [...read, ...added].map(pairOf);
  }

  any(): boolean {
    return this.#withRuns;
  }

  has(_project: string, key: Key): boolean {
    const name = nameOfKey(key);
    if (this.addedWaiting.has(name)) return true;
    if (this.droppedWaiting.has(name)) return false;
    const run = this.#facts.waiting.get(name);
    if (run === undefined) this.wanted.key('waiting', key);
    return run !== undefined && run !== null;
  }

  of(_project: string, parent: Key): Key[] {
    const name = nameOfKey(parent);
    const read =
      this.#facts.children.get(name) ?? this.#absent(() => this.wanted.key('children', parent));
    const children = new Map(read.map((run) => [nameOfKey(run.key), run.key]));
    for (const child of this.droppedWaiting.keys()) children.delete(child);
    for (const [child, run] of this.addedWaiting) {
      if (nameOfKey(run.parent) === name) children.set(child, run.key);
      else children.delete(child);
    }
    return [...children.values()];
  }

  add(_project: string, key: Key, parent: Key, receivedAt: number): void {
    this.addedWaiting.set(nameOfKey(key), { key, parent, receivedAt });
  }

  drop(_project: string, key: Key): void {
    this.addedWaiting.delete(nameOfKey(key));
    this.droppedWaiting.set(nameOfKey(key), key);
  }

  #find(trace: number, key: Key): Entry | null {
    const now = this.#entries.get(trace)?.get(nameOfKey(key));
    if (now !== undefined) return now;
    if (this.#isEmpty(trace)) return null;
    const read = this.#facts.entries.get(placeName(trace, key));
    // What was read may have moved meanwhile; then its new place is known.
    if (read !== undefined && read !== null) {
      this.#put(read);
      this.#read.set(read.n, read);
      return read;
    }
    if (read === undefined) this.wanted.entry(trace, key);
    return null;
  }

  #isEmpty(trace: number): boolean {
    return this.#facts.empty.has(trace) || this.newTraces.has(trace);
  }

  #put(entry: Entry): void {
    this.#entriesOf(entry.trace).set(nameOfKey(entry.key), entry);
    this.#byNumber.set(entry.n, entry);
  }

  #entriesOf(trace: number): Map<string, Entry | null> {
    let entries = this.#entries.get(trace);
    if (entries === undefined) {
      entries = new Map();
      this.#entries.set(trace, entries);
    }
    return entries;
  }

  #numbered(n: number): Entry {
    const entry = this.#byNumber.get(n);
    if (entry === undefined) throw NOT_READ;
    return entry;
  }

  #next(numbers: Iterator<number>): number {
    const { value, done } = numbers.next();
    if (done === true) throw NOT_READ;
    return value as number;
  }

  /** Nothing, for now. */
  #absent(note: () => void): readonly never[] {
    note();
    return [];
  }
}

/** Whether a write could not go on; it may when it is done again with what it wanted. */
export function isNotRead(error: unknown): boolean {
  return error === NOT_READ;
}

function pairOf([row, state]: PendingUpdate): [ObservationRow, RowState<string>] {
  return [row, state];
}

function isSame(a: Entry, b: Entry): boolean {
  if (a === b) return true;
  if (a.trace !== b.trace) return false;
  const [cells, others] = [a, b].map(({ n, trace, row, state }) =>
    observationCells(trace, n, row, state),
  );
  return cells?.every((cell, i) => Buffer.isBuffer(cell) || cell === others?.[i]) === true;
}
