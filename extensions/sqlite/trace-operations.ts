/** What writes observations, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { keepBatch } from '../../src/queue/operations.ts';
import type { WrittenParts } from '../../src/queue/part-operations.ts';
import type { BatchRecord } from '../../src/queue/record.ts';
import { deletedProjects } from '../../src/queue/removal-operations.ts';
import type { Access, OperationOptions, Operations } from '../../src/sqlite/operation.ts';
import { merge } from './merge.ts';
import type { Key, ObservationRow, RowState } from './observation-row.ts';
import { fromMerged, ROW_LENGTH, toMerged } from './observation-row.ts';
import { traceReadingCalls } from './trace-reading.ts';
import { Statements } from './trace-statements.ts';
import { TraceState } from './trace-sums.ts';
import { WAITING_CHILDREN, WaitingChildren } from './waiting-children.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS traces (
    n INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    key ANY NOT NULL,
    long_id TEXT,
    at_ms INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    start_ms INTEGER,
    start_ns INTEGER,
    end_ms INTEGER,
    end_ns INTEGER,
    root INTEGER,
    name TEXT,
    status INTEGER,
    observations INTEGER NOT NULL,
    model_usage TEXT,
    other_usage TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (project, key)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS traces_by_time ON traces (project, at_ms, at_ns, n);
  CREATE INDEX IF NOT EXISTS traces_by_age ON traces (project, updated_at);
  CREATE TABLE IF NOT EXISTS observations (
    n INTEGER PRIMARY KEY,
    trace INTEGER NOT NULL,
    key ANY NOT NULL,
    long_id TEXT,
    batch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    version ANY NOT NULL,
    flags INTEGER NOT NULL,
    parent ANY,
    name TEXT,
    kind INTEGER,
    status INTEGER,
    start_ms INTEGER,
    start_ns INTEGER,
    end_ms INTEGER,
    end_ns INTEGER,
    model TEXT,
    usage TEXT,
    session TEXT,
    user TEXT,
    error TEXT,
    custom TEXT,
    external TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    merged TEXT,
    UNIQUE (trace, key)
  ) STRICT;
  -- The id of a span begins with its trace's, which finds it; every other id is found here.
  CREATE INDEX IF NOT EXISTS observations_by_key ON observations (key)
    WHERE substr(key, 1, 1) <> ':';
  CREATE TABLE IF NOT EXISTS pending_updates (
    project TEXT NOT NULL,
    key ANY NOT NULL,
    batch INTEGER NOT NULL,
    position INTEGER NOT NULL,
    row TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (project, key, batch, position)
  ) STRICT, WITHOUT ROWID;
  -- Which traces a raw batch has events of: it goes when none of them is left.
  CREATE TABLE IF NOT EXISTS batch_traces (
    batch INTEGER NOT NULL,
    trace INTEGER NOT NULL,
    PRIMARY KEY (batch, trace)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS batch_traces_by_trace ON batch_traces (trace);
  ${WAITING_CHILDREN}
`;

/** Answered when the batch is not stored yet and did not come along. */
export const NEEDS_BATCH = 'needs batch';
/** Answered when the project was deleted: nothing was written. */
export const PROJECT_DELETED = 'project deleted';

/** Rows of one write: per trace its key, its id where that is long, and its rows one after another. */
export type TraceRows = readonly [key: Key, longId: string | null, rows: readonly unknown[]];

export function operations(
  db: DatabaseSync,
  access: Access,
  _options: OperationOptions,
): Operations {
  if (access === 'read') return { calls: traceReadingCalls(db) };
  db.exec(SCHEMA);
  const keep = keepBatch(db);
  const statements = new Statements(db);
  const waiting = new WaitingChildren(db);
  const isDeleted = deletedProjects(db);
  /** Returns whether its usage was counted by this call. */
  const write = (
    project: string,
    batchId: string,
    record: BatchRecord | null,
    receivedAt: number,
    traces: readonly TraceRows[],
    updates: readonly unknown[],
    children: readonly unknown[],
    usageAt: number,
    parts: WrittenParts | null,
  ): typeof NEEDS_BATCH | typeof PROJECT_DELETED | boolean => {
    if (isDeleted(project)) return PROJECT_DELETED;
    const known = statements.seqOf(batchId);
    if (known === undefined && record === null) return NEEDS_BATCH;
    const kept = known === undefined && record !== null ? keep(record, usageAt, parts) : undefined;
    const batch = known ?? kept?.[0] ?? 0;
    const run = new Write(statements, waiting, project, batch, receivedAt);
    for (const rows of traces) run.writeTrace(rows);
    run.writeChildren(children);
    run.writeUpdates(updates);
    run.finish();
    return kept?.[2] === true;
  };
  return { calls: { 'traces.write': write }, growing: ['traces.write'] };
}

/** One batch's observations: each trace is read once, and written once at the end. */
class Write {
  readonly #statements: Statements;
  readonly #waiting: WaitingChildren;
  readonly #project: string;
  readonly #state: RowState;
  readonly #traces = new Map<number, TraceState>();
  readonly #hasPending: boolean;
  #hasWaiting: boolean;

  constructor(
    statements: Statements,
    waiting: WaitingChildren,
    project: string,
    batch: number,
    receivedAt: number,
  ) {
    this.#statements = statements;
    this.#waiting = waiting;
    this.#project = project;
    this.#state = { batch, createdAt: receivedAt, updatedAt: receivedAt, merged: null };
    this.#hasPending = statements.hasPending();
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
    const n = this.#statements.insert(trace.n, row, this.#state);
    if (n === undefined) this.#mergeInto(trace, row, this.#state);
    else trace.added(n, row);
    if (this.#hasPending) this.#applyPending(trace, row[0]);
    if (this.#hasWaiting) this.#settle(trace, row[0]);
  }

  /** Runs that name no trace but a parent, each with its parent's key in front; parents first. */
  writeChildren(rows: readonly unknown[]): void {
    const children = new Map<Key, [parent: Key, rows: ObservationRow[]]>();
    for (let at = 0; at < rows.length; at += ROW_LENGTH + 1) {
      const row = rows.slice(at + 1, at + 1 + ROW_LENGTH) as ObservationRow;
      const known = children.get(nameOf(row[0]));
      if (known === undefined) children.set(nameOf(row[0]), [rows[at] as Key, [row]]);
      else known[1].push(row);
    }
    for (const name of [...children.keys()]) {
      const line: Key[] = [];
      for (let next: Key | undefined = name; next !== undefined && !line.includes(next); ) {
        const child = children.get(next);
        if (child === undefined) break;
        line.push(next);
        next = nameOf(child[0]);
      }
      for (const child of line.reverse()) {
        const [parent, own] = children.get(child) ?? ['', []];
        children.delete(child);
        for (const row of own) this.#writeChild(parent, row);
      }
    }
  }

  /** A run stands where it is already, else where its parent is, else in a trace of its own for now. */
  #writeChild(parent: Key, row: ObservationRow): void {
    const [key, longId] = row;
    const own = this.#statements.traceOfRun(this.#project, key);
    const of = own ?? this.#statements.traceOfRun(this.#project, parent);
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
    const seen = new Set<Key>();
    for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
      if (seen.has(nameOf(parent))) continue;
      seen.add(nameOf(parent));
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
    const number = this.#statements.traceOfRun(this.#project, key);
    if (number === undefined || number === to.n) return;
    const from = this.#stateOf(number);
    const [n, row, state] = this.#statements.row(from.n, key);
    from.mustRecount = true;
    this.#statements.copyPairs(from.n, to.n);
    to.seen(from.createdAt);
    to.seen(from.updatedAt);
    if (this.#statements.move(n, to.n, key)) to.added(n, row);
    else {
      this.#statements.remove(n);
      this.#mergeInto(to, row, state);
    }
  }

  /** Updates that name no trace: the run's own row says where it stands; until it comes, they wait. */
  writeUpdates(rows: readonly unknown[]): void {
    for (let at = 0; at < rows.length; at += ROW_LENGTH) {
      const row = rows.slice(at, at + ROW_LENGTH) as ObservationRow;
      const n = this.#statements.traceOfRun(this.#project, row[0]);
      if (n === undefined) {
        this.#statements.addPending(this.#project, row, this.#state);
        continue;
      }
      const trace = this.#stateOf(n);
      trace.seen(this.#state.createdAt);
      this.#mergeInto(trace, row, this.#state);
    }
  }

  #applyPending(trace: TraceState, key: Key): void {
    for (const [row, state] of this.#statements.takePending(this.#project, key)) {
      this.#statements.addPair(state.batch, trace.n);
      trace.seen(state.createdAt);
      this.#mergeInto(trace, row, state);
    }
  }

  #mergeInto(trace: TraceState, event: ObservationRow, state: RowState): void {
    const [n, before, beforeState] = this.#statements.row(trace.n, event[0]);
    const merged = merge(toMerged(before, beforeState), toMerged(event, state), (batch) =>
      this.#statements.batchId(batch),
    );
    const after = fromMerged(merged, before[0], before[1]);
    this.#statements.update(n, after.row, after.state);
    trace.changed(n, before, after.row);
  }

  #traceOf(key: Key, longId: string | null): TraceState {
    const n =
      this.#statements.traceNumber(this.#project, key) ??
      this.#statements.addTrace(this.#project, key, longId, this.#state.createdAt);
    return this.#stateOf(n);
  }

  #stateOf(n: number): TraceState {
    const known = this.#traces.get(n);
    if (known !== undefined) return known;
    const state = this.#statements.traceState(n);
    this.#statements.addPair(this.#state.batch, n);
    this.#traces.set(n, state);
    return state;
  }

  finish(): void {
    for (const trace of this.#traces.values()) {
      const current = trace.mustRecount ? this.#recount(trace) : trace;
      // Where everything moved to another trace, there is none any more.
      if (current.count === 0) this.#statements.removeTrace(trace.n);
      else this.#statements.saveTrace(current);
    }
  }

  #recount(old: TraceState): TraceState {
    const trace = new TraceState(old.n, old.createdAt);
    trace.seen(old.updatedAt);
    for (const [n, row] of this.#statements.rowsOf(old.n)) trace.added(n, row);
    return trace;
  }
}

/** A key that is equal where the key is. */
function nameOf(key: Key): Key {
  return typeof key === 'string' ? key : `#${Buffer.from(key).toString('hex')}`;
}
