import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { cell, finds, rows, tuples } from '../../../src/sqlite/rows.ts';
import { RollupDelta } from '../../../src/store/rollups/delta.ts';
import type { CopyKey } from '../../../src/store/rows/copies.ts';
import { copyKeyOf } from '../../../src/store/rows/copies.ts';
import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey, ROW, ROW_COLUMNS } from '../../../src/store/rows/observation-row.ts';
import type {
  EventRow,
  NumberedRow,
  ObservationTable,
  PlacedRow,
} from '../../../src/store/rows/observation-write.ts';
import type { SummarizedTrace, TraceColumn } from '../../../src/store/rows/trace-columns.ts';
import {
  isSummarized,
  STATE_COLUMNS,
  SUMMARY_COLUMNS,
  summaryCells,
} from '../../../src/store/rows/trace-columns.ts';
import { WrittenTrace } from '../../../src/store/rows/written-trace.ts';
import { HIDDEN } from '../batches/purge-operations.ts';
import type { TextMarks } from '../search/marks.ts';
import { textMarks } from '../search/marks.ts';
import type { AddedTrace } from './added-traces.ts';
import { AddedTraces } from './added-traces.ts';
import type { PostedCells, PostingTable } from './postings.ts';
import {
  blobOfTerms,
  isUnposted,
  POSTED_COLUMNS,
  postingsOfCells,
  postingTable,
} from './postings.ts';
import { DeltaLog } from './rollup-operations.ts';

/** A row of `observations`. A tuple, because a batch of merged observations reads one for each. */
export type ObservationCells = [
  n: number,
  batch: number,
  createdAt: number,
  updatedAt: number,
  merged: string | null,
  ...row: ObservationRow,
];

/** The columns of `ObservationCells`, in its order. */
export const OBSERVATION_COLUMN_NAMES = [
  ...['n', 'batch', 'created_at', 'updated_at', 'merged'],
  ...ROW_COLUMNS.split(', '),
];

/** A row as `pending_updates` keeps it, as JSON: its key is a column. */
type CellsWithoutKey = ObservationRow extends [Key, ...infer Cells] ? Cells : never;

/** The cells before the `ObservationRow`. */
const CELL = { N: 0, BATCH: 1, CREATED_AT: 2, UPDATED_AT: 3, MERGED: 4, ROW: 5 } as const;

/** The state of a trace. A tuple, because every write reads one for each trace. */
type TraceCells = readonly [
  observations: number,
  createdAt: number,
  updatedAt: number,
  keyId: string | null,
  rollup: string | null,
  ...posted: PostedCells,
];

/** Reads a cell by the values of the statement. */
type CellQuery<Value> = (...values: SQLInputValue[]) => Value | undefined;

type PendingUpdate = { readonly batch: number; readonly row: string; readonly receivedAt: number };

/** The statements of a writing connection, with the types of their rows. */
export class Statements implements ObservationTable<number> {
  readonly #seqOf: CellQuery<number>;
  readonly #batchId: CellQuery<string>;
  readonly #insert: StatementSync;
  readonly #update: StatementSync;
  readonly #row: RowQuery<ObservationCells>;
  readonly #rowsOf: RowQuery<ObservationCells>;
  readonly #traceNumber: CellQuery<number>;
  readonly #addTrace: StatementSync;
  readonly #insertTrace: StatementSync;
  readonly #newestTrace: CellQuery<number>;
  readonly #added = new AddedTraces();
  readonly #trace: RowQuery<TraceCells>;
  readonly #saveState: StatementSync;
  readonly #saveTrace: StatementSync;
  readonly #traceOfRun: CellQuery<number>;
  readonly #addPending: StatementSync;
  readonly #anyPending: () => boolean;
  readonly #pending: RowQuery<PendingUpdate>;
  readonly #dropPending: StatementSync;
  readonly #addPair: StatementSync;
  readonly #copyPairs: StatementSync;
  readonly #saveCopy: StatementSync;
  readonly #copies: RowQuery<PlacedRow>;
  readonly #move: StatementSync;
  readonly #remove: StatementSync;
  readonly #removePairs: StatementSync;
  readonly #removeTrace: StatementSync;
  readonly #postings: PostingTable;
  readonly #texts: TextMarks;

  constructor(db: DatabaseSync) {
    const select = `SELECT ${OBSERVATION_COLUMN_NAMES.join(', ')} FROM observations`;
    const values = ROW_COLUMNS.split(', ');
    this.#seqOf = cell(db, 'SELECT seq FROM raw_batches WHERE id = ?');
    this.#batchId = cell(db, 'SELECT id FROM raw_batches WHERE seq = ?');
    this.#insert = db.prepare(
      `INSERT INTO observations (trace, batch, created_at, updated_at, ${ROW_COLUMNS})
       VALUES (?, ?, ?, ?, ${values.map(() => '?').join(', ')}) ON CONFLICT (trace, key) DO NOTHING`,
    );
    this.#update = db.prepare(
      `UPDATE observations SET batch = ?, created_at = ?, updated_at = ?, merged = ?,
         ${values.map((column) => `${column} = ?`).join(', ')} WHERE n = ?`,
    );
    this.#row = tuples(db, `${select} WHERE trace = ? AND key = ?`);
    this.#rowsOf = tuples(db, `${select} WHERE trace = ?`);
    this.#traceNumber = cell(db, 'SELECT n FROM traces WHERE project = ? AND key = ?');
    this.#addTrace = db.prepare(
      `INSERT INTO traces (n, project, key, long_id, at_ms, at_ns, observations, created_at, updated_at, terms, is_grouped)
       VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, ?5, ?5, x'', NOT ${isUnposted('?1')})`,
    );
    const columns = [...STATE_COLUMNS, ...SUMMARY_COLUMNS].map(({ name }) => name);
    this.#insertTrace = db.prepare(
      `INSERT INTO traces (${columns.join(', ')}, terms, project, key, long_id, n, stale_changes, is_grouped)
       VALUES (${columns.map(() => '?').join(', ')}, ?, ?, ?, ?, ?, 0, NOT ${isUnposted('?')})`,
    );
    this.#newestTrace = cell(db, 'SELECT max(n) FROM traces');
    this.#trace = tuples(
      db,
      `SELECT observations, created_at, updated_at, key_id, rollup, ${POSTED_COLUMNS} FROM traces WHERE n = ?`,
    );
    this.#saveState = db.prepare(
      `UPDATE traces SET ${assignments(STATE_COLUMNS)}, ${COUNTED_CHANGE} WHERE n = ?`,
    );
    this.#saveTrace = db.prepare(
      `UPDATE traces SET ${assignments(STATE_COLUMNS)}, ${SUMMARY_ASSIGNMENTS} WHERE n = ?`,
    );
    this.#traceOfRun = cell(
      db,
      `SELECT o.trace FROM observations o JOIN traces t ON t.n = o.trace
       WHERE o.key = ? AND substr(o.key, 1, 1) <> ':' AND t.project = ? ORDER BY o.n DESC LIMIT 1`,
    );
    this.#addPending = db.prepare(
      'INSERT OR IGNORE INTO pending_updates VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#anyPending = finds(db, 'SELECT 1 FROM pending_updates LIMIT 1');
    this.#pending = rows(
      db,
      'SELECT batch, row, received_at AS receivedAt FROM pending_updates WHERE project = ? AND key = ?',
    );
    this.#addPair = db.prepare('INSERT OR IGNORE INTO batch_traces VALUES (?, ?)');
    this.#copyPairs = db.prepare(
      'INSERT OR IGNORE INTO batch_traces SELECT batch, ?2 FROM batch_traces WHERE trace = ?1',
    );
    this.#saveCopy = db.prepare('UPDATE observations SET copy = ? WHERE n = ?');
    this.#copies = rows(
      db,
      `SELECT o.trace, o.key FROM observations o INDEXED BY observations_by_copy
       CROSS JOIN traces t ON t.n = o.trace
       WHERE o.copy = ? AND t.project = ? LIMIT ?`,
    );
    this.#move = db.prepare(
      `UPDATE observations SET trace = ?2 WHERE n = ?1
       AND NOT EXISTS (SELECT 1 FROM observations WHERE trace = ?2 AND key = ?3)`,
    );
    this.#remove = db.prepare('DELETE FROM observations WHERE n = ?');
    this.#removePairs = db.prepare('DELETE FROM batch_traces WHERE trace = ?');
    this.#removeTrace = db.prepare('DELETE FROM traces WHERE n = ?');
    this.#postings = postingTable(db);
    this.#texts = textMarks(db);
    this.#dropPending = db.prepare('DELETE FROM pending_updates WHERE project = ? AND key = ?');
  }

  seqOf(batchId: string): number | undefined {
    return this.#seqOf(batchId);
  }

  batchId(seq: number): string {
    return this.#batchId(seq) ?? '';
  }

  /** The new row's number; undefined when the observation has a row already. */
  insert(trace: number, row: ObservationRow, state: RowState<number>): number | undefined {
    const { changes, lastInsertRowid } = this.#insert.run(
      trace,
      state.batch,
      state.createdAt,
      state.updatedAt,
      ...row,
    );
    if (changes === 0) return undefined;
    const n = Number(lastInsertRowid);
    const copy = copyKeyOf(row);
    if (copy !== null) this.#saveCopy.run(copy, n);
    this.#texts.inserted(trace, n);
    return n;
  }

  update(n: number, row: ObservationRow, state: RowState<number>): void {
    const { batch, createdAt, updatedAt, merged } = state;
    this.#update.run(batch, createdAt, updatedAt, merged, ...row, n);
    const copy = copyKeyOf(row);
    if (copy !== null) this.#saveCopy.run(copy, n);
    this.#texts.changed(n);
  }

  row(trace: number, key: Key): NumberedRow<number> {
    const found = this.#row.get(trace, key);
    if (found === undefined)
      throw new Error(`trace ${trace} has lost an observation within a transaction`);
    return splitRow(found);
  }

  rowsOf(trace: number): NumberedRow<number>[] {
    return this.#rowsOf.all(trace).map(splitRow);
  }

  /** Before each write, which may follow one that failed. */
  begin(): void {
    this.#added.clear();
  }

  traceNumber(project: string, key: Key): number | undefined {
    return this.#added.numberOf(project, key) ?? this.#traceNumber(project, key);
  }

  /** The row is inserted with its summary, unless another statement needs it before: an update of its indexes costs more. */
  addTrace(project: string, key: Key, longId: string | null, at: number): number {
    return this.#added.add({ project, key, longId, at }, this.#newestTrace() ?? 0);
  }

  #insertAdded(added: Iterable<AddedTrace>): void {
    for (const { n, project, key, longId, at } of added) {
      this.#addTrace.run(n, project, key, longId, at);
    }
  }

  traceState(n: number): WrittenTrace {
    const added = this.#added.get(n);
    if (added !== undefined) {
      const state = new WrittenTrace(n, added.at);
      state.postings = { at: { ms: added.at, ns: 0 }, terms: [] };
      return state;
    }
    const row = this.#trace.get(n);
    if (row === undefined) throw new Error(`trace ${n} is lost within a transaction`);
    const [observations, createdAt, updatedAt, keyId, rollup, ...posted] = row;
    const state = new WrittenTrace(n, createdAt);
    state.updatedAt = updatedAt;
    state.keyId = keyId;
    state.rollup = rollup;
    state.count = observations;
    state.postings = postingsOfCells(posted);
    return state;
  }

  saveTrace(trace: WrittenTrace): void {
    const state = STATE_COLUMNS.map(({ of }) => of(trace));
    const added = this.#added.take(trace.n);
    if (added !== undefined && isSummarized(trace)) {
      const { n, project, key, longId } = added;
      this.#insertTrace.run(...state, ...savedCells(trace), project, key, longId, n, n);
      this.#postings.save(trace, trace.postings);
      return;
    }
    if (added !== undefined) this.#insertAdded([added]);
    if (!isSummarized(trace)) {
      this.#saveState.run(...state, trace.n);
      return;
    }
    this.#saveTrace.run(...state, ...savedCells(trace), trace.n);
    this.#postings.save(trace, trace.postings);
  }

  /** The batch has events of the trace. */
  addPair(batch: number, trace: number): void {
    this.#addPair.run(batch, trace);
  }

  /** Adds the batches of one trace to the other. */
  copyPairs(from: number, to: number): void {
    this.#copyPairs.run(from, to);
  }

  /** Moves an observation to another trace; false if that has one with the same key. */
  move(n: number, trace: number, key: Key): boolean {
    this.#texts.changed(n);
    const isMoved = this.#move.run(n, trace, key).changes === 1;
    if (isMoved) this.#texts.inserted(trace, n);
    return isMoved;
  }

  remove(n: number): void {
    this.#texts.changed(n);
    this.#remove.run(n);
  }

  /** Removes a trace without observations. */
  removeTrace(n: number): void {
    this.#removePairs.run(n);
    if (this.#added.take(n) !== undefined) return;
    this.#postings.remove(n);
    this.#removeTrace.run(n);
  }

  /** Run ids are unique in a project; if they are not, the newest run counts. */
  traceOfRun(project: string, key: Key): number | undefined {
    this.#insertAdded(this.#added.takeAll());
    return this.#traceOfRun(key, project);
  }

  copies(project: string, copy: CopyKey, limit: number): readonly PlacedRow[] {
    this.#insertAdded(this.#added.takeAll());
    return this.#copies.all(copy, project, limit);
  }

  hasPending(): boolean {
    return this.#anyPending();
  }

  addPending(project: string, row: ObservationRow, state: RowState<number>): void {
    const [key, , position] = row;
    const text = JSON.stringify(row.slice(1));
    this.#addPending.run(project, key, state.batch, position, text, state.createdAt);
  }

  takePending(project: string, key: Key): EventRow<number>[] {
    const found = this.#pending.all(project, key);
    if (found.length > 0) this.#dropPending.run(project, key);
    return found.map(({ batch, row, receivedAt: at }) => ({
      row: rowWithKey(key, JSON.parse(row) as CellsWithoutKey),
      state: { batch, createdAt: at, updatedAt: at, merged: null },
    }));
  }
}

/** See `STATE_COLUMNS`. */
export const COUNTED_CHANGE = 'stale_changes = abs(stale_changes) + 1';

/** Sets the columns of a summary, whose cells `savedCells` makes. */
const SUMMARY_ASSIGNMENTS = `${assignments(SUMMARY_COLUMNS)}, terms = ?, stale_changes = -abs(stale_changes),
  model_usage = NULL, other_usage = NULL`;

function savedCells(trace: SummarizedTrace): SQLInputValue[] {
  return [...summaryCells(trace), blobOfTerms(trace.terms.terms)];
}

/** The trace that a summary was made of, and the changes that it had. */
type SummarySource = { readonly project: string; readonly key: Key; readonly changes: number };

/** Saves a summary that no write of observations made; with `source`, only into the same trace without further changes. */
export type SaveSummary = (trace: SummarizedTrace, source?: SummarySource) => void;

type StoredCells = readonly [
  project: string,
  key: Key,
  createdAt: number,
  changes: number,
  rollup: string | null,
];

export function summarySaving(db: DatabaseSync): SaveSummary {
  const postings = postingTable(db);
  const deltas = new DeltaLog(db);
  const stored = tuples<StoredCells>(
    db,
    'SELECT project, key, created_at, stale_changes, rollup FROM traces WHERE n = ?',
  );
  const save = db.prepare(`UPDATE traces SET ${SUMMARY_ASSIGNMENTS} WHERE n = ?`);
  return (trace, source) => {
    const cells = stored.get(trace.n);
    if (cells === undefined || (source !== undefined && !isUnchanged(cells, trace, source))) return;
    const [project, , , , rollup] = cells;
    if (project === HIDDEN) return;
    const before = postings.of(trace.n);
    save.run(...savedCells(trace), trace.n);
    postings.save(trace, before);
    const delta = new RollupDelta();
    if (trace.rollup !== null) delta.replaceText(rollup, trace.rollup);
    deltas.add(project, delta);
  };
}

/** The number alone does not name the trace: after a removal of the newest one it is given again, maybe in another project. */
function isUnchanged(
  [project, key, createdAt, changes]: StoredCells,
  trace: SummarizedTrace,
  source: SummarySource,
): boolean {
  return (
    project === source.project &&
    nameOfKey(key) === nameOfKey(source.key) &&
    createdAt === trace.createdAt &&
    changes === source.changes
  );
}

function assignments(columns: readonly Pick<TraceColumn<never>, 'name'>[]): string {
  return columns.map(({ name }) => `${name} = ?`).join(', ');
}

/** A row that waited before there were details has one cell less. */
function rowWithKey(key: Key, cells: CellsWithoutKey): ObservationRow {
  const row: ObservationRow = [key, ...cells];
  row[ROW.DETAILS] ??= null;
  return row;
}

export function splitRow(cells: ObservationCells): NumberedRow<number> {
  // Not a rest pattern, which costs several times as much as the slice.
  const row = cells.slice(CELL.ROW) as ObservationRow;
  return {
    n: cells[CELL.N],
    row,
    state: {
      batch: cells[CELL.BATCH],
      createdAt: cells[CELL.CREATED_AT],
      updatedAt: cells[CELL.UPDATED_AT],
      merged: cells[CELL.MERGED],
    },
  };
}
