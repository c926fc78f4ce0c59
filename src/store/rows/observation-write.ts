import type { Pricing } from '../pricing.ts';
import { contributionOf } from '../rollups/contribution.ts';
import type { RollupRecorder } from '../rollups/delta.ts';
import type { TraceRows } from './batch-rows.ts';
import type { CopyKey } from './copies.ts';
import { copyKeyOf, isRunWithCopy, otherCopy } from './copies.ts';
import type { BatchRef } from './event-rank.ts';
import { mergeRows } from './merge.ts';
import type { FlatRows, Key, ObservationRow, RowState } from './observation-row.ts';
import {
  fromMerged,
  nameOfKey,
  ROW,
  ROW_LENGTH,
  rowAt,
  rowKeyAt,
  toMerged,
} from './observation-row.ts';
import { pricedRow } from './priced-row.ts';
import type { SummedRow } from './trace-summary.ts';
import { summarize } from './trace-summary.ts';
import { traceTerms } from './trace-terms.ts';
import type { WrittenTrace } from './written-trace.ts';
import { MAX_SUMMARIZED } from './written-trace.ts';

/** An event, or several merged events. */
export type EventRow<B extends BatchRef> = {
  readonly row: ObservationRow;
  readonly state: RowState<B>;
};

/** A row of `observations`. */
export type NumberedRow<B extends BatchRef> = EventRow<B> & { readonly n: number };

/** The operations of a store that a write needs. Traces and observations have numbers in the order of their arrival. */
export type ObservationTable<B extends BatchRef> = {
  batchId(batch: B): string;
  /** Returns the number of the new row; undefined if the observation has a row already. */
  insert(trace: number, row: ObservationRow, state: RowState<B>): number | undefined;
  update(n: number, row: ObservationRow, state: RowState<B>): void;
  /** Throws if the row does not exist. */
  row(trace: number, key: Key): NumberedRow<B>;
  rowsOf(trace: number): NumberedRow<B>[];
  traceNumber(project: string, key: Key): number | undefined;
  addTrace(project: string, key: Key, longId: string | null, at: number): number;
  traceState(n: number): WrittenTrace;
  saveTrace(trace: WrittenTrace): void;
  /** Removes a trace without observations. */
  removeTrace(n: number): void;
  /** Run ids are unique in a project; if they are not, the newest run counts. */
  traceOfRun(project: string, key: Key): number | undefined;
  /** Observations of the project with this key in `copy`, at most `limit`. */
  copies(project: string, copy: CopyKey, limit: number): readonly PlacedRow[];
  /** Moves an observation to another trace; false if that has one with the same key. */
  move(n: number, trace: number, key: Key): boolean;
  remove(n: number): void;
  /** Records that the batch has events of the trace. */
  addPair(batch: B, trace: number): void;
  /** Adds the batches of one trace to the other. */
  copyPairs(from: number, to: number): void;
  /** Whether any update waits for its run. */
  hasPending(): boolean;
  addPending(project: string, row: ObservationRow, state: RowState<B>): void;
  /** Removes and returns the updates that wait for the run. */
  takePending(project: string, key: Key): EventRow<B>[];
};

/** An observation by its trace and key. */
export type PlacedRow = { readonly trace: number; readonly key: Key };

/** Runs without a trace whose parent has not arrived. */
export type WaitingRuns = {
  any(): boolean;
  add(project: string, key: Key, parent: Key, receivedAt: number): void;
  has(project: string, key: Key): boolean;
  of(project: string, parent: Key): Key[];
  drop(project: string, key: Key): void;
};

/** Spans that a run which has ended removes at most: each of several runs with the same name and start removes as many. */
export const MAX_COPIES = 16;

/** Where the observations of a write come from. */
export type WriteSource<B extends BatchRef> = {
  readonly project: string;
  /** The API key that sent the batch. */
  readonly keyId: string;
  readonly batch: B;
  readonly receivedAt: number;
  /** Prices merged observations; undefined without the processor `cost`. */
  readonly pricing?: Pricing | undefined;
  /** Gets the changes of the rollups. */
  readonly rollups: RollupRecorder;
  /**
   * The batch was written before, and retention has removed traces of it since: the write changes what is left of them, and makes none
   * again, which would count twice in the rollups.
   */
  readonly isExpired?: boolean;
};

/** Writes the observations of one batch. Reads each trace once, and writes it once, at the end, with its summary. */
export class ObservationWrite<B extends BatchRef> {
  readonly #table: ObservationTable<B>;
  readonly #waiting: WaitingRuns;
  readonly #project: string;
  readonly #keyId: string;
  readonly #state: RowState<B>;
  readonly #pricing: Pricing | undefined;
  readonly #rollups: RollupRecorder;
  readonly #isExpired: boolean;
  readonly #traces = new Map<number, WrittenTrace>();
  /** Those of which the batch has no event: they only lose spans. */
  readonly #unpaired = new Set<number>();
  /** The rows of the traces that this write created, while it has only inserted rows into them. */
  readonly #fresh = new Map<number, NumberedRow<B>[]>();
  readonly #hasPending: boolean;
  #hasWaiting: boolean;
  #unindexedTerms = 0;

  constructor(
    table: ObservationTable<B>,
    waiting: WaitingRuns,
    { project, keyId, batch, receivedAt, pricing, rollups, isExpired = false }: WriteSource<B>,
  ) {
    this.#table = table;
    this.#waiting = waiting;
    this.#project = project;
    this.#keyId = keyId;
    this.#state = { batch, createdAt: receivedAt, updatedAt: receivedAt, merged: null };
    this.#pricing = pricing;
    this.#rollups = rollups;
    this.#isExpired = isExpired;
    this.#hasPending = table.hasPending();
    this.#hasWaiting = waiting.any();
  }

  writeTrace({ key, longId, rows }: TraceRows): void {
    if (this.#isExpired && this.#table.traceNumber(this.#project, key) === undefined) return;
    const trace = this.#traceOf(key, longId);
    trace.seen(this.#state.createdAt, this.#keyId);
    for (let at = 0; at < rows.length; at += ROW_LENGTH) {
      const row = rowAt(rows, at);
      const own = row[ROW.KEY];
      if (this.#hasWaiting && this.#waiting.has(this.#project, own)) {
        // This event names the trace of a run that waits for its parent.
        this.#waiting.drop(this.#project, own);
        this.#bring(own, trace);
      }
      this.#enter(trace, row);
    }
  }

  #enter(trace: WrittenTrace, row: ObservationRow): void {
    const copy = copyKeyOf(row);
    if (copy !== null && !isRunWithCopy(copy) && this.#isOfEndedRun(copy)) return;
    const n = this.#table.insert(trace.n, row, this.#state);
    if (n === undefined) this.#mergeInto(trace, row, this.#state);
    else {
      trace.count++;
      this.#fresh.get(trace.n)?.push({ n, row, state: this.#state });
      if (isRunWithCopy(copy)) this.#removeSpans(trace, copy);
    }
    if (this.#hasPending) this.#applyPending(trace, row[ROW.KEY]);
    if (this.#hasWaiting) this.#settle(trace, row[ROW.KEY]);
  }

  /** Whether a run that has ended is the same observation. Its trace then keeps the batch, which has the span. */
  #isOfEndedRun(copy: CopyKey): boolean {
    const runs = this.#table.copies(this.#project, otherCopy(copy), MAX_COPIES);
    for (const { trace } of runs) this.#table.addPair(this.#state.batch, trace);
    return runs.length > 0;
  }

  /** Removes the spans that are the same observation as a run that has ended. Its trace keeps their batches. */
  #removeSpans(to: WrittenTrace, copy: CopyKey): void {
    for (const { trace, key } of this.#table.copies(this.#project, otherCopy(copy), MAX_COPIES)) {
      const from = this.#losing(trace);
      this.#table.remove(this.#table.row(trace, key).n);
      from.count--;
      this.#fresh.delete(trace);
      if (trace !== to.n) this.#table.copyPairs(trace, to.n);
    }
  }

  /** Writes runs that name a parent and no trace, each after its parent's key; parents before their children. */
  writeChildren(rows: FlatRows): void {
    const children = new Map<string, { parent: Key; rows: ObservationRow[] }>();
    for (let at = 0; at < rows.length; at += ROW_LENGTH + 1) {
      const parent = rowKeyAt(rows, at);
      const row = rowAt(rows, at + 1);
      const name = nameOfKey(row[ROW.KEY]);
      const known = children.get(name);
      if (known === undefined) children.set(name, { parent, rows: [row] });
      else known.rows.push(row);
    }
    for (const name of [...children.keys()]) {
      const ancestors: string[] = [];
      for (let next = name; !ancestors.includes(next); ) {
        const child = children.get(next);
        if (child === undefined) break;
        ancestors.push(next);
        next = nameOfKey(child.parent);
      }
      for (const child of ancestors.reverse()) {
        const run = children.get(child);
        children.delete(child);
        for (const row of run?.rows ?? []) this.#writeChild(run?.parent ?? '', row);
      }
    }
  }

  /** Writes a run into the trace that has it already, else into its parent's, else into a trace with its own id. */
  #writeChild(parent: Key, row: ObservationRow): void {
    const key = row[ROW.KEY];
    const own = this.#table.traceOfRun(this.#project, key);
    const found = own ?? this.#table.traceOfRun(this.#project, parent);
    if (found === undefined && this.#isExpired) return;
    const trace = found === undefined ? this.#traceOf(key, row[ROW.LONG_ID]) : this.#stateOf(found);
    trace.seen(this.#state.createdAt, this.#keyId);
    if (own === undefined && (found === undefined || this.#waiting.has(this.#project, parent))) {
      this.#waiting.add(this.#project, key, parent, this.#state.createdAt);
      this.#hasWaiting = true;
    }
    this.#enter(trace, row);
  }

  /** Moves the children that wait for this run to its trace. They wait no more unless the run itself waits. */
  #settle(trace: WrittenTrace, key: Key): void {
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
  #bring(key: Key, to: WrittenTrace): void {
    const number = this.#table.traceOfRun(this.#project, key);
    if (number === undefined || number === to.n) return;
    const from = this.#stateOf(number);
    const { n, row, state } = this.#table.row(from.n, key);
    from.count--;
    this.#fresh.delete(from.n);
    this.#fresh.delete(to.n);
    this.#table.copyPairs(from.n, to.n);
    to.seen(from.createdAt, from.keyId);
    to.seen(from.updatedAt, from.keyId);
    if (this.#table.move(n, to.n, key)) to.count++;
    else {
      this.#table.remove(n);
      this.#mergeInto(to, row, state);
    }
  }

  /** Writes updates that name no trace into the trace of their run; until the run arrives, they wait. */
  writeUpdates(rows: FlatRows): void {
    for (let at = 0; at < rows.length; at += ROW_LENGTH) {
      const row = rowAt(rows, at);
      const n = this.#table.traceOfRun(this.#project, row[ROW.KEY]);
      if (n === undefined) {
        if (!this.#isExpired) this.#table.addPending(this.#project, row, this.#state);
        continue;
      }
      const trace = this.#stateOf(n);
      trace.seen(this.#state.createdAt, this.#keyId);
      this.#mergeInto(trace, row, this.#state);
    }
  }

  #applyPending(trace: WrittenTrace, key: Key): void {
    for (const { row, state } of this.#table.takePending(this.#project, key)) {
      this.#table.addPair(state.batch, trace.n);
      trace.seen(state.createdAt, null);
      this.#mergeInto(trace, row, state);
    }
  }

  #mergeInto(trace: WrittenTrace, event: ObservationRow, state: RowState<B>): void {
    const found = this.#table.row(trace.n, event[ROW.KEY]);
    const { n, row: before } = found;
    const merged = mergeRows(toMerged(before, found.state), toMerged(event, state), (batch) =>
      this.#table.batchId(batch),
    );
    const after = fromMerged(merged, before[ROW.KEY], before[ROW.LONG_ID]);
    this.#table.update(n, this.#priced(after.row, after.state), after.state);
    this.#fresh.delete(trace.n);
    const copy = copyKeyOf(after.row);
    if (isRunWithCopy(copy)) this.#removeSpans(trace, copy);
  }

  /** The processor `cost` prices single events; their merge may have another model, usage or start. */
  #priced(row: ObservationRow, { createdAt }: RowState<B>): ObservationRow {
    if (this.#pricing === undefined) return row;
    return pricedRow(row, createdAt, this.#pricing)?.row ?? row;
  }

  #traceOf(key: Key, longId: string | null): WrittenTrace {
    const known = this.#table.traceNumber(this.#project, key);
    if (known !== undefined) return this.#stateOf(known);
    const n = this.#table.addTrace(this.#project, key, longId, this.#state.createdAt);
    this.#fresh.set(n, []);
    return this.#stateOf(n);
  }

  #stateOf(n: number): WrittenTrace {
    const known = this.#traces.get(n);
    if (known === undefined || this.#unpaired.delete(n)) this.#table.addPair(this.#state.batch, n);
    return known ?? this.#loaded(n);
  }

  /** As `#stateOf`, for a trace that loses a span. */
  #losing(n: number): WrittenTrace {
    const known = this.#traces.get(n);
    if (known === undefined) this.#unpaired.add(n);
    return known ?? this.#loaded(n);
  }

  #loaded(n: number): WrittenTrace {
    const state = this.#table.traceState(n);
    this.#traces.set(n, state);
    return state;
  }

  /** The terms that its traces have too many, when it has finished. */
  get unindexedTerms(): number {
    return this.#unindexedTerms;
  }

  /** The numbers of the traces that this write has changed, and has left. */
  changed(): number[] {
    return [...this.#traces.values()].filter(({ count }) => count > 0).map(({ n }) => n);
  }

  /** Returns whether every trace has its summary. */
  finish(): boolean {
    let isSummarized = true;
    for (const trace of this.#traces.values()) {
      // A trace whose observations all moved to another trace is removed.
      if (trace.count === 0) {
        this.#rollups.subtract(trace.rollup);
        this.#table.removeTrace(trace.n);
        continue;
      }
      if (trace.count <= MAX_SUMMARIZED) {
        const rows = this.#fresh.get(trace.n) ?? this.#table.rowsOf(trace.n);
        // A working set that has yet to read the rows gives none; the merge runs again.
        if (rows.length > 0) this.#summarize(trace, rows);
      } else {
        // Another batch of the same transaction may have summarized it.
        trace.summary = undefined;
        isSummarized = false;
      }
      this.#table.saveTrace(trace);
    }
    return isSummarized;
  }

  #summarize(trace: WrittenTrace, rows: readonly SummedRow[]): void {
    const { createdAt, keyId } = trace;
    const summary = summarize(rows, trace.updatedAt);
    trace.summary = summary;
    trace.rollup = this.#rollups.replace(
      trace.rollup,
      contributionOf({ createdAt, keyId, summary }),
    );
    trace.terms = traceTerms(this.#project, keyId, summary);
    this.#unindexedTerms += trace.terms.unindexed;
  }
}
