import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Key, ObservationRow, RowState } from '../../src/store/rows/observation-row.ts';
import { ROW_COLUMNS, ROW_LENGTH } from '../../src/store/rows/observation-row.ts';
import type { NumberedRow, ObservationTable } from '../../src/store/rows/observation-write.ts';
import { rootKeyOf, sumsOf, sumsToText, TraceState } from '../../src/store/rows/trace-sums.ts';

/** `ANY` columns give back what went in; everything else is text or a number. */
type Cell = string | number | Uint8Array | null;

/** The statements of a writing connection, each with the shape of its rows. */
export class Statements implements ObservationTable<number> {
  readonly #seqOf: StatementSync;
  readonly #batchId: StatementSync;
  readonly #insert: StatementSync;
  readonly #update: StatementSync;
  readonly #row: StatementSync;
  readonly #rowsOf: StatementSync;
  readonly #rowByNumber: StatementSync;
  readonly #traceNumber: StatementSync;
  readonly #addTrace: StatementSync;
  readonly #trace: StatementSync;
  readonly #saveTrace: StatementSync;
  readonly #traceOfRun: StatementSync;
  readonly #addPending: StatementSync;
  readonly #anyPending: StatementSync;
  readonly #pending: StatementSync;
  readonly #dropPending: StatementSync;
  readonly #addPair: StatementSync;
  readonly #copyPairs: StatementSync;
  readonly #move: StatementSync;
  readonly #remove: StatementSync;
  readonly #removePairs: StatementSync;
  readonly #removeTrace: StatementSync;

  constructor(db: DatabaseSync) {
    const rows = (sql: string): StatementSync => {
      const statement = db.prepare(sql);
      statement.setReturnArrays(true);
      return statement;
    };
    const columns = `n, ${ROW_COLUMNS}, batch, created_at, updated_at, merged`;
    const values = ROW_COLUMNS.split(', ');
    this.#seqOf = rows('SELECT seq FROM raw_batches WHERE id = ?');
    this.#batchId = rows('SELECT id FROM raw_batches WHERE seq = ?');
    this.#insert = db.prepare(
      `INSERT INTO observations (trace, batch, created_at, updated_at, ${ROW_COLUMNS})
       VALUES (?, ?, ?, ?, ${values.map(() => '?').join(', ')}) ON CONFLICT (trace, key) DO NOTHING`,
    );
    this.#update = db.prepare(
      `UPDATE observations SET batch = ?, created_at = ?, updated_at = ?, merged = ?,
         ${values.map((column) => `${column} = ?`).join(', ')} WHERE n = ?`,
    );
    this.#row = rows(`SELECT ${columns} FROM observations WHERE trace = ? AND key = ?`);
    this.#rowsOf = rows(`SELECT ${columns} FROM observations WHERE trace = ?`);
    this.#rowByNumber = rows(`SELECT ${columns} FROM observations WHERE n = ?`);
    this.#traceNumber = rows('SELECT n FROM traces WHERE project = ? AND key = ?');
    this.#addTrace = db.prepare(
      `INSERT INTO traces (project, key, long_id, at_ms, at_ns, observations, created_at, updated_at)
       VALUES (?1, ?2, ?3, ?4, 0, 0, ?4, ?4)`,
    );
    this.#trace = rows(
      `SELECT start_ms, start_ns, end_ms, end_ns, root, name, status, observations, model_usage,
         other_usage, created_at, updated_at FROM traces WHERE n = ?`,
    );
    this.#saveTrace = db.prepare(
      `UPDATE traces SET at_ms = ?, at_ns = ?, start_ms = ?, start_ns = ?, end_ms = ?, end_ns = ?,
         root = ?, name = ?, status = ?, observations = ?, model_usage = ?, other_usage = ?,
         created_at = ?, updated_at = ? WHERE n = ?`,
    );
    this.#traceOfRun = rows(
      `SELECT o.trace FROM observations o JOIN traces t ON t.n = o.trace
       WHERE o.key = ? AND substr(o.key, 1, 1) <> ':' AND t.project = ? ORDER BY o.n DESC LIMIT 1`,
    );
    this.#addPending = db.prepare(
      'INSERT OR IGNORE INTO pending_updates VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#anyPending = rows('SELECT 1 FROM pending_updates LIMIT 1');
    this.#pending = rows(
      'SELECT batch, row, received_at FROM pending_updates WHERE project = ? AND key = ?',
    );
    this.#addPair = db.prepare('INSERT OR IGNORE INTO batch_traces VALUES (?, ?)');
    this.#copyPairs = db.prepare(
      'INSERT OR IGNORE INTO batch_traces SELECT batch, ?2 FROM batch_traces WHERE trace = ?1',
    );
    this.#move = db.prepare(
      `UPDATE observations SET trace = ?2 WHERE n = ?1
       AND NOT EXISTS (SELECT 1 FROM observations WHERE trace = ?2 AND key = ?3)`,
    );
    this.#remove = db.prepare('DELETE FROM observations WHERE n = ?');
    this.#removePairs = db.prepare('DELETE FROM batch_traces WHERE trace = ?');
    this.#removeTrace = db.prepare('DELETE FROM traces WHERE n = ?');
    this.#dropPending = db.prepare('DELETE FROM pending_updates WHERE project = ? AND key = ?');
  }

  seqOf(batchId: string): number | undefined {
    return one<[number]>(this.#seqOf.get(batchId))?.[0];
  }

  batchId(seq: number): string {
    return one<[string]>(this.#batchId.get(seq))?.[0] ?? '';
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
    return changes === 0 ? undefined : Number(lastInsertRowid);
  }

  update(n: number, row: ObservationRow, state: RowState<number>): void {
    const { batch, createdAt, updatedAt, merged } = state;
    this.#update.run(batch, createdAt, updatedAt, merged, ...row, n);
  }

  row(trace: number, key: Key): NumberedRow<number> {
    const found = one<Cell[]>(this.#row.get(trace, key));
    if (found === undefined) throw new Error('an observation that was there is gone');
    return splitRow(found);
  }

  rowsOf(trace: number): NumberedRow<number>[] {
    return (this.#rowsOf.all(trace) as unknown as Cell[][]).map(splitRow);
  }

  traceNumber(project: string, key: Key): number | undefined {
    return one<[number]>(this.#traceNumber.get(project, key))?.[0];
  }

  addTrace(project: string, key: Key, longId: string | null, at: number): number {
    return Number(this.#addTrace.run(project, key, longId, at).lastInsertRowid);
  }

  traceState(n: number): TraceState {
    const cells = one<Cell[]>(this.#trace.get(n));
    if (cells === undefined) throw new Error('a trace that was there is gone');
    const [startMs, startNs, endMs, endNs, root] = cells as (number | null)[];
    const [name, status, count, model, other, createdAt, updatedAt] = cells.slice(5);
    const state = new TraceState(n, createdAt as number);
    state.seen(updatedAt as number);
    state.startMs = startMs ?? null;
    state.startNs = startNs ?? null;
    state.endMs = endMs ?? null;
    state.endNs = endNs ?? null;
    state.name = name as string | null;
    state.status = status as number | null;
    state.count = count as number;
    state.modelUsage = sumsOf(model);
    state.otherUsage = sumsOf(other);
    state.root = root ?? null;
    if (state.root !== null) {
      const found = one<Cell[]>(this.#rowByNumber.get(state.root));
      if (found !== undefined) state.rootKey = rootKeyOf(state.root, splitRow(found)[1]);
    }
    return state;
  }

  saveTrace(trace: TraceState): void {
    this.#saveTrace.run(
      trace.startMs ?? trace.createdAt,
      trace.startNs ?? 0,
      trace.startMs,
      trace.startNs,
      trace.endMs,
      trace.endNs,
      trace.root,
      trace.name,
      trace.status,
      trace.count,
      sumsToText(trace.modelUsage),
      sumsToText(trace.otherUsage),
      trace.createdAt,
      trace.updatedAt,
      trace.n,
    );
  }

  /** The batch has events of the trace. */
  addPair(batch: number, trace: number): void {
    this.#addPair.run(batch, trace);
  }

  /** The batches of one trace are the other's, too. */
  copyPairs(from: number, to: number): void {
    this.#copyPairs.run(from, to);
  }

  /** Puts an observation into another trace; false where that has one of the same key. */
  move(n: number, trace: number, key: Key): boolean {
    return this.#move.run(n, trace, key).changes === 1;
  }

  remove(n: number): void {
    this.#remove.run(n);
  }

  /** A trace without observations. */
  removeTrace(n: number): void {
    this.#removePairs.run(n);
    this.#removeTrace.run(n);
  }

  /** Run ids are unique in a project; where they are not, the newest run is meant. */
  traceOfRun(project: string, key: Key): number | undefined {
    return one<[number]>(this.#traceOfRun.get(key, project))?.[0];
  }

  hasPending(): boolean {
    return this.#anyPending.get() !== undefined;
  }

  addPending(project: string, row: ObservationRow, state: RowState<number>): void {
    const [key, , position] = row;
    const text = JSON.stringify(row.slice(1));
    this.#addPending.run(project, key, state.batch, position, text, state.createdAt);
  }

  takePending(project: string, key: Key): [row: ObservationRow, state: RowState<number>][] {
    const found = this.#pending.all(project, key) as unknown as [number, string, number][];
    if (found.length > 0) this.#dropPending.run(project, key);
    return found.map(([batch, text, at]) => [
      [key, ...(JSON.parse(text) as unknown[])] as ObservationRow,
      { batch, createdAt: at, updatedAt: at, merged: null },
    ]);
  }
}

/** A row as it is read, with `n` before and the state behind. */
export function splitRow(cells: Cell[]): NumberedRow<number> {
  const [batch, createdAt, updatedAt, merged] = cells.slice(1 + ROW_LENGTH) as [
    number,
    number,
    number,
    string | null,
  ];
  return [
    cells[0] as number,
    cells.slice(1, 1 + ROW_LENGTH) as unknown as ObservationRow,
    { batch, createdAt, updatedAt, merged },
  ];
}

function one<Row>(found: unknown): Row | undefined {
  return found as Row | undefined;
}
