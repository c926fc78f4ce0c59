import type { BatchRef } from './event-rank.ts';
import { mergeRows } from './merge.ts';
import type { Key, ObservationRow, RowState } from './observation-row.ts';
import { fromMerged, nameOfKey, ROW_LENGTH, toMerged } from './observation-row.ts';
import { TraceState } from './trace-sums.ts';

/** Rows of one write: per trace its key, its id where that is long, and its rows one after another. */
export type TraceRows = readonly [key: Key, longId: string | null, rows: readonly unknown[]];

export type NumberedRow<B extends BatchRef> = [n: number, row: ObservationRow, state: RowState<B>];

/** The operations of a store that a write needs. Traces and observations have numbers, which grow in order of arrival. */
export type ObservationTable<B extends BatchRef> = {
  batchId(batch: B): string;
  /** The new row's number; undefined when the observation has a row already. */
  insert(trace: number, row: ObservationRow, state: RowState<B>): number | undefined;
  update(n: number, row: ObservationRow, state: RowState<B>): void;
  /** Throws when it is not there. */
  row(trace: number, key: Key): NumberedRow<B>;
  rowsOf(trace: number): NumberedRow<B>[];
  traceNumber(project: string, key: Key): number | undefined;
  addTrace(project: string, key: Key, longId: string | null, at: number): number;
  traceState(n: number): TraceState;
  saveTrace(trace: TraceState): void;
  /** A trace without observations. */
  removeTrace(n: number): void;
  /** Run ids are unique in a project; where they are not, the newest run is meant. */
  traceOfRun(project: string, key: Key): number | undefined;
  /** Puts an observation into another trace; false where that has one of the same key. */
  move(n: number, trace: number, key: Key): boolean;
  remove(n: number): void;
  /** The batch has events of the trace. */
  addPair(batch: B, trace: number): void;
  /** The batches of one trace are the other's, too. */
  copyPairs(from: number, to: number): void;
  hasPending(): boolean;
  addPending(project: string, row: ObservationRow, state: RowState<B>): void;
  takePending(project: string, key: Key): [row: ObservationRow, state: RowState<B>][];
};

/** Runs whose trace follows from a parent that has yet to come. */
export type WaitingRuns = {
  any(): boolean;
  add(project: string, key: Key, parent: Key, receivedAt: number): void;
  has(project: string, key: Key): boolean;
  of(project: string, parent: Key): Key[];
  drop(project: string, key: Key): void;
};

/** One batch's observations: each trace is read once, and written once at the end. */
export class ObservationWrite<B extends BatchRef> {
  readonly #table: ObservationTable<B>;
  readonly #waiting: WaitingRuns;
  readonly #project: string;
  readonly #state: RowState<B>;
  readonly #traces = new Map<number, TraceState>();
  readonly #hasPending: boolean;
  #hasWaiting: boolean;

  constructor(
    table: ObservationTable<B>,
    waiting: WaitingRuns,
    project: string,
    batch: B,
    receivedAt: number,
  ) {
    this.#table = table;
    this.#waiting = waiting;
    this.#project = project;
    this.#state = { batch, createdAt: receivedAt, updatedAt: receivedAt, merged: null };
    this.#hasPending = table.hasPending();
    this.#hasWaiting = waiting.any();
  }

  writeTrace([key, longId, rows]: TraceRows): void {
    const trace = this.#traceOf(key, longId);
    trace.seen(this.#state.createdAt);
    for (let at = 0; at < rows.length; at += ROW_LENGTH) {
      const row = rows.slice(at, at + ROW_LENGTH) as ObservationRow;
      if (this.#hasWaiting && this.#waiting.has(this.#project, row[0])) {
        // Its trace is said at last.
        this.#waiting.drop(this.#project, row[0]);
        this.#bring(row[0], trace);
      }
      this.#enter(trace, row);
    }
  }

  #enter(trace: TraceState, row: ObservationRow): void {
    const n = this.#table.insert(trace.n, row, this.#state);
    if (n === undefined) this.#mergeInto(trace, row, this.#state);
    else trace.added(n, row);
    if (this.#hasPending) this.#applyPending(trace, row[0]);
    if (this.#hasWaiting) this.#settle(trace, row[0]);
  }

  /** Runs that name no trace but a parent, each with its parent's key in front; parents first. */
  writeChildren(rows: readonly unknown[]): void {
    const children = new Map<string, [parent: Key, rows: ObservationRow[]]>();
    for (let at = 0; at < rows.length; at += ROW_LENGTH + 1) {
      const row = rows.slice(at + 1, at + 1 + ROW_LENGTH) as ObservationRow;
      const known = children.get(nameOfKey(row[0]));
      if (known === undefined) children.set(nameOfKey(row[0]), [rows[at] as Key, [row]]);
      else known[1].push(row);
    }
    for (const name of [...children.keys()]) {
      const line: string[] = [];
      for (let next: string | undefined = name; next !== undefined && !line.includes(next); ) {
        const child = children.get(next);
        if (child === undefined) break;
        line.push(next);
        next = nameOfKey(child[0]);
      }
      for (const child of line.reverse()) {
        const [parent, own] = children.get(child) ?? ['', []];
        children.delete(child);
        for (const row of own) this.#writeChild(parent, row);
      }
    }
  }

  /** The trace of a run: where it is already, else that of its parent, else for now a trace of its own. */
  #writeChild(parent: Key, row: ObservationRow): void {
    const [key, longId] = row;
    const own = this.#table.traceOfRun(this.#project, key);
    const of = own ?? this.#table.traceOfRun(this.#project, parent);
    const trace = of === undefined ? this.#traceOf(key, longId) : this.#stateOf(of);
    trace.seen(this.#state.createdAt);
    if (own === undefined && (of === undefined || this.#waiting.has(this.#project, parent))) {
      this.#waiting.add(this.#project, key, parent, this.#state.createdAt);
      this.#hasWaiting = true;
    }
    this.#enter(trace, row);
  }

  /** The children that wait for this run go where it is; unless it waits itself, they have arrived. */
  #settle(trace: TraceState, key: Key): void {
    const project = this.#project;
    const open = [key];
    const seen = new Set<string>();
    for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
      if (seen.has(nameOfKey(parent))) continue;
      seen.add(nameOfKey(parent));
      const isSettled = !this.#waiting.has(project, parent);
      for (const child of this.#waiting.of(project, parent)) {
        this.#bring(child, trace);
        if (isSettled) this.#waiting.drop(project, child);
        open.push(child);
      }
    }
  }

  /** Moves an observation, which may have a row in its new trace already. */
  #bring(key: Key, to: TraceState): void {
    const number = this.#table.traceOfRun(this.#project, key);
    if (number === undefined || number === to.n) return;
    const from = this.#stateOf(number);
    const [n, row, state] = this.#table.row(from.n, key);
    from.mustRecount = true;
    this.#table.copyPairs(from.n, to.n);
    to.seen(from.createdAt);
    to.seen(from.updatedAt);
    if (this.#table.move(n, to.n, key)) to.added(n, row);
    else {
      this.#table.remove(n);
      this.#mergeInto(to, row, state);
    }
  }

  /** Updates without a trace: the run's own row names it; they are pending until that row arrives. */
  writeUpdates(rows: readonly unknown[]): void {
    for (let at = 0; at < rows.length; at += ROW_LENGTH) {
      const row = rows.slice(at, at + ROW_LENGTH) as ObservationRow;
      const n = this.#table.traceOfRun(this.#project, row[0]);
      if (n === undefined) {
        this.#table.addPending(this.#project, row, this.#state);
        continue;
      }
      const trace = this.#stateOf(n);
      trace.seen(this.#state.createdAt);
      this.#mergeInto(trace, row, this.#state);
    }
  }

  #applyPending(trace: TraceState, key: Key): void {
    for (const [row, state] of this.#table.takePending(this.#project, key)) {
      this.#table.addPair(state.batch, trace.n);
      trace.seen(state.createdAt);
      this.#mergeInto(trace, row, state);
    }
  }

  #mergeInto(trace: TraceState, event: ObservationRow, state: RowState<B>): void {
    const [n, before, beforeState] = this.#table.row(trace.n, event[0]);
    const merged = mergeRows(toMerged(before, beforeState), toMerged(event, state), (batch) =>
      this.#table.batchId(batch),
    );
    const after = fromMerged(merged, before[0], before[1]);
    this.#table.update(n, after.row, after.state);
    trace.changed(n, before, after.row);
  }

  #traceOf(key: Key, longId: string | null): TraceState {
    const n =
      this.#table.traceNumber(this.#project, key) ??
      this.#table.addTrace(this.#project, key, longId, this.#state.createdAt);
    return this.#stateOf(n);
  }

  #stateOf(n: number): TraceState {
    const known = this.#traces.get(n);
    if (known !== undefined) return known;
    const state = this.#table.traceState(n);
    this.#table.addPair(this.#state.batch, n);
    this.#traces.set(n, state);
    return state;
  }

  finish(): void {
    for (const trace of this.#traces.values()) {
      const current = trace.mustRecount ? this.#recount(trace) : trace;
      // Where everything moved to another trace, there is none any more.
      if (current.count === 0) this.#table.removeTrace(trace.n);
      else this.#table.saveTrace(current);
    }
  }

  #recount(old: TraceState): TraceState {
    const trace = new TraceState(old.n, old.createdAt);
    trace.seen(old.updatedAt);
    for (const [n, row] of this.#table.rowsOf(old.n)) trace.added(n, row);
    return trace;
  }
}
