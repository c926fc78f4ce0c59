import { RollupDelta } from '../../../src/store/rollups/delta.ts';
import type { CopyKey } from '../../../src/store/rows/copies.ts';
import { copyKeyOf } from '../../../src/store/rows/copies.ts';
import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey, ROW } from '../../../src/store/rows/observation-row.ts';
import type {
  NumberedRow,
  ObservationTable,
  PlacedRow,
  WaitingRuns,
} from '../../../src/store/rows/observation-write.ts';
import { WrittenTrace } from '../../../src/store/rows/written-trace.ts';
import { firstNumberOf } from './numbers.ts';
import { isSameRow, isSameTrace, writtenTraceOf } from './rows.ts';
import type { Entry, NewTrace, PendingUpdate, Snapshot, WaitingRun } from './snapshot.ts';
import { placeName, ReadSet } from './snapshot.ts';

/** Thrown if the merge cannot go on before a missing row is read. */
const NOT_READ = new Error('a row that the write needs has not been read yet');

/** The observations of a write that is not exclusive concern another row of the project. */
export class NeedsExclusiveLock extends Error {
  override readonly name = 'NeedsExclusiveLock';
}

export type ChangedEntry = { readonly before: Entry; readonly now: Entry };

/** A trace that a batch has events of. */
export type BatchTrace = { readonly batch: string; readonly trace: number };

export type Changes = {
  readonly inserted: readonly Entry[];
  readonly changed: readonly ChangedEntry[];
  readonly removed: readonly Entry[];
};

/**
 * The tables as one run of a merge sees and changes them, in memory: the rows of the snapshot, and the changes since.
 * A row that the snapshot lacks counts as absent and is noted in `missing`. The result of a run counts only if
 * `missing` is empty; otherwise the write reads the missing rows and merges again, with a new working set over the
 * larger snapshot. docs/data-model.md describes the whole algorithm.
 */
export class WorkingSet implements ObservationTable<string>, WaitingRuns {
  readonly missing = new ReadSet();
  /** Those without a key in the table. */
  readonly newTraces = new Map<number, NewTrace>();
  readonly saved = new Map<number, WrittenTrace>();
  readonly removedTraces: number[] = [];
  readonly pairs = new Map<string, BatchTrace>();
  readonly copiedPairs: { readonly from: number; readonly to: number }[] = [];
  readonly addedPending: PendingUpdate[] = [];
  readonly takenPending: Key[] = [];
  readonly addedWaiting = new Map<string, WaitingRun & { readonly receivedAt: number }>();
  readonly droppedWaiting = new Map<string, Key>();
  readonly rollups = new RollupDelta();
  readonly #snapshot: Snapshot;
  /** Whether runs without a trace take part in the merge. */
  readonly #withRuns: boolean;
  readonly #numbers: Iterator<number>;
  readonly #traceNumbers: Iterator<number>;
  readonly #newNumbers = new Map<string, number>();
  /** Observations as they are now, by trace and key; null for one that was moved away or removed. */
  readonly #entries = new Map<number, Map<string, Entry | null>>();
  /** The same by number. */
  readonly #byNumber = new Map<number, Entry>();
  readonly #removed = new Set<number>();
  /** Those of `#byNumber` that are in the table, as they are there. */
  readonly #read = new Map<number, Entry>();
  /** Numbers of inserted observations by key, if runs take part. */
  readonly #insertedRuns = new Map<string, number[]>();
  /** Numbers of observations that this run read or changed, by `copy`. */
  readonly #copies = new Map<CopyKey, Set<number>>();

  constructor(
    snapshot: Snapshot,
    withRuns: boolean,
    numbers: readonly number[],
    traceNumbers: readonly number[],
  ) {
    this.#snapshot = snapshot;
    this.#withRuns = withRuns;
    this.#numbers = numbers[Symbol.iterator]();
    this.#traceNumbers = traceNumbers[Symbol.iterator]();
  }

  /** The changes of observations: inserted ones, read ones that changed or moved, and removed ones. */
  changes(): Changes {
    const inserted: Entry[] = [];
    const changed: { before: Entry; now: Entry }[] = [];
    for (const now of this.#byNumber.values()) {
      if (this.#removed.has(now.n)) continue;
      const before = this.#read.get(now.n);
      if (before === undefined) inserted.push(now);
      else if (!isSameRow(before, now)) changed.push({ before, now });
    }
    const removed = [...this.#removed].flatMap((n) => this.#read.get(n) ?? []);
    return { inserted, changed, removed };
  }

  /** Those whose row or observations changed. */
  changedTraces({ inserted, changed, removed }: Changes): WrittenTrace[] {
    const touched = new Set([
      ...[...inserted, ...removed].map(({ trace }) => trace),
      ...changed.flatMap(({ before, now }) => [before.trace, now.trace]),
    ]);
    return [...this.saved.values()].filter((now) => {
      const before = this.#snapshot.traces.get(now.n);
      return (
        before === undefined ||
        touched.has(now.n) ||
        before.rollup !== now.rollup ||
        !isSameTrace(writtenTraceOf(before), now)
      );
    });
  }

  /** A trace without a row in the table. */
  createdTrace(n: number): NewTrace | undefined {
    return this.#snapshot.empty.get(n) ?? this.newTraces.get(n);
  }

  /** The terms that the saved traces have too many. */
  get unindexedTerms(): number {
    return [...this.saved.values()].reduce((sum, { terms }) => sum + (terms?.unindexed ?? 0), 0);
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
    return entry;
  }

  rowsOf(trace: number): NumberedRow<string>[] {
    const read =
      this.#snapshot.whole.get(trace) ??
      (this.#isEmpty(trace) ? [] : this.#absent(() => this.missing.whole.add(trace)));
    const entries = new Map(read.map((entry) => [entry.n, entry]));
    for (const entry of this.#byNumber.values()) {
      if (entry.trace === trace) entries.set(entry.n, entry);
      else entries.delete(entry.n);
    }
    for (const n of this.#removed) entries.delete(n);
    return [...entries.values()];
  }

  traceNumber(_project: string, key: Key): number | undefined {
    const name = nameOfKey(key);
    const made = this.#newNumbers.get(name);
    if (made !== undefined) return made;
    const number = this.#snapshot.numbers.get(name);
    if (number === undefined) this.missing.addKey('numbers', key);
    return number ?? undefined;
  }

  addTrace(_project: string, key: Key, longId: string | null, at: number): number {
    const n = firstNumberOf(at) + this.#next(this.#traceNumbers);
    this.#newNumbers.set(nameOfKey(key), n);
    this.newTraces.set(n, { n, key, longId, at });
    return n;
  }

  traceState(n: number): WrittenTrace {
    const saved = this.saved.get(n);
    if (saved !== undefined) return saved;
    const created = this.createdTrace(n);
    if (created !== undefined) return new WrittenTrace(n, created.at);
    const cells = this.#snapshot.traces.get(n);
    if (cells !== undefined) return writtenTraceOf(cells);
    this.missing.traces.add(n);
    throw NOT_READ;
  }

  saveTrace(trace: WrittenTrace): void {
    this.saved.set(trace.n, trace);
  }

  removeTrace(n: number): void {
    this.removedTraces.push(n);
  }

  traceOfRun(_project: string, key: Key): number | undefined {
    if (typeof key === 'string' && key.startsWith(':')) return undefined;
    const name = nameOfKey(key);
    const read =
      this.#snapshot.runs.get(name) ?? this.#absent(() => this.missing.addKey('runs', key));
    let newest: Entry | undefined;
    for (const n of [...read.map((entry) => entry.n), ...(this.#insertedRuns.get(name) ?? [])]) {
      if (this.#removed.has(n)) continue;
      const entry = this.#byNumber.get(n) ?? read.find((one) => one.n === n);
      if (entry !== undefined && n >= (newest?.n ?? 0)) newest = entry;
    }
    return newest?.trace;
  }

  copies(_project: string, copy: CopyKey, limit: number): readonly PlacedRow[] {
    if (!this.#withRuns) throw new NeedsExclusiveLock();
    const read =
      this.#snapshot.copies.get(copy) ?? this.#absent(() => this.missing.copies.add(copy));
    const numbers = new Set([...read.map(({ n }) => n), ...(this.#copies.get(copy) ?? [])]);
    const found: PlacedRow[] = [];
    for (const n of numbers) {
      const entry = this.#byNumber.get(n) ?? read.find((one) => one.n === n);
      if (entry === undefined || this.#removed.has(n) || copyKeyOf(entry.row) !== copy) continue;
      if (found.push(entry) === limit) break;
    }
    return found;
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
    this.pairs.set(`${trace} ${batch}`, { batch, trace });
  }

  copyPairs(from: number, to: number): void {
    this.copiedPairs.push({ from, to });
  }

  hasPending(): boolean {
    return this.#withRuns;
  }

  addPending(_project: string, row: ObservationRow, state: RowState<string>): void {
    this.addedPending.push({ row, state });
  }

  takePending(_project: string, key: Key): PendingUpdate[] {
    const name = nameOfKey(key);
    const added = this.addedPending.filter(({ row }) => nameOfKey(row[ROW.KEY]) === name);
    for (const one of added) this.addedPending.splice(this.addedPending.indexOf(one), 1);
    if (this.takenPending.some((taken) => nameOfKey(taken) === name)) return added;
    const read =
      this.#snapshot.pending.get(name) ?? this.#absent(() => this.missing.addKey('pending', key));
    if (read.length > 0) this.takenPending.push(key);
    return [...read, ...added];
  }

  any(): boolean {
    return this.#withRuns;
  }

  has(_project: string, key: Key): boolean {
    const name = nameOfKey(key);
    if (this.addedWaiting.has(name)) return true;
    if (this.droppedWaiting.has(name)) return false;
    const run = this.#snapshot.waiting.get(name);
    if (run === undefined) this.missing.addKey('waiting', key);
    return run !== undefined && run !== null;
  }

  of(_project: string, parent: Key): Key[] {
    const name = nameOfKey(parent);
    const read =
      this.#snapshot.children.get(name) ??
      this.#absent(() => this.missing.addKey('children', parent));
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
    const read = this.#snapshot.entries.get(placeName(trace, key));
    if (read !== undefined && read !== null) {
      this.#put(read);
      this.#read.set(read.n, read);
      return read;
    }
    if (read === undefined) this.missing.addEntry(trace, key);
    return null;
  }

  #isEmpty(trace: number): boolean {
    return this.createdTrace(trace) !== undefined;
  }

  #put(entry: Entry): void {
    this.#entriesOf(entry.trace).set(nameOfKey(entry.key), entry);
    this.#byNumber.set(entry.n, entry);
    const copy = copyKeyOf(entry.row);
    if (copy === null) return;
    const numbers = this.#copies.get(copy);
    if (numbers === undefined) this.#copies.set(copy, new Set([entry.n]));
    else numbers.add(entry.n);
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

  /** Notes missing rows, which count as absent in this run. */
  #absent(note: () => void): readonly never[] {
    note();
    return [];
  }
}

/** Whether a merge stopped because it needs a row that has not been read. */
export function isNotRead(error: unknown): boolean {
  return error === NOT_READ;
}
