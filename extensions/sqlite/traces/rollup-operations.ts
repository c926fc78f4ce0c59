/** Adds the changes of writes to the rollups, in the database thread. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { decodeJsonText } from '../../../src/model/json/decode.ts';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { cell, finds, tuples } from '../../../src/sqlite/rows.ts';
import type { RollupChange } from '../../../src/store/rollups/contribution.ts';
import type { StoredDelta } from '../../../src/store/rollups/delta.ts';
import { addStored, DELTA_KINDS, RollupDelta } from '../../../src/store/rollups/delta.ts';
import type { RollupKey, RollupSums, RollupTable } from '../../../src/store/rollups/fold.ts';
import { foldChanges } from '../../../src/store/rollups/fold.ts';
import { addEncoded, encodeHistogram } from '../../../src/store/rollups/histogram.ts';

/** Changes that one step adds: about ten milliseconds. Traces of a larger step have more values in common. */
export const STEP_CHANGES = 1000;
/** Characters of the deltas that one step reads, beside the first one. */
export const STEP_CHARACTERS = 1_048_576;
/** Rows that a step of a removal removes. */
const STEP_ROWS = 500;

/** The oldest deltas of a project, summed up. The changes are JSON of a list of `RollupChange`, which the event loop passes on as it is. */
export type FoldStep = {
  readonly project: string;
  /** The numbers of the first and the last delta. */
  readonly from: number;
  readonly upTo: number;
  readonly changes: string;
  /** The changes that wait for the next step; null without any. */
  readonly rest: string | null;
  /** The number of the newest delta. */
  readonly newest: number;
};

/** The highest number of a delta in this thread. None is used again, so that a missing number says that its delta was added. */
let newest = 0;
/** The lowest one, that of the newest rest. None is used again either. */
let lowest = 0;

/** Keeps what a write changed in the rollups of a project. */
export class DeltaLog {
  readonly #last: (project: string) => number | undefined;
  readonly #first: (project: string) => number | undefined;
  readonly #insert: StatementSync;
  readonly #contribution: RowQuery<[project: string, rollup: string | null]>;

  constructor(db: DatabaseSync) {
    this.#last = cell(db, 'SELECT coalesce(max(n), 0) FROM rollup_deltas WHERE project = ?');
    this.#first = cell(db, 'SELECT coalesce(min(n), 0) FROM rollup_deltas WHERE project = ?');
    this.#insert = db.prepare('INSERT INTO rollup_deltas VALUES (?, ?, ?, ?)');
    this.#contribution = tuples(db, 'SELECT project, rollup FROM traces WHERE n = ?');
  }

  add(project: string, delta: RollupDelta): void {
    const changes = delta.changes();
    if (changes.length === 0) return;
    this.addStored(project, { kind: DELTA_KINDS.CHANGES, text: JSON.stringify(changes) });
  }

  addStored(project: string, { kind, text }: StoredDelta): void {
    newest = Math.max(newest, this.#last(project) ?? 0) + 1;
    this.#insert.run(project, newest, kind, text);
  }

  /** Keeps the changes that a step left before all deltas: a later one may subtract them, or add to a trace that they begin. */
  addRest(project: string, text: string): void {
    lowest = Math.min(lowest, this.#first(project) ?? 0) - 1;
    this.#insert.run(project, lowest, DELTA_KINDS.CHANGES, text);
  }

  /** Subtracts what a trace contributed, before it is erased. */
  subtract(trace: number): void {
    const [project = '', rollup = null] = this.#contribution.get(trace) ?? [];
    if (rollup !== null)
      this.addStored(project, { kind: DELTA_KINDS.SUBTRACTED, text: `[${rollup}]` });
  }
}

export function rollupOperations(db: DatabaseSync) {
  const table = new Table(db);
  const deltas = new DeltaLog(db);
  const isWaiting = finds(db, 'SELECT 1 FROM rollup_deltas WHERE project = ? AND n = ?');
  const drop = db.prepare('DELETE FROM rollup_deltas WHERE project = ? AND n <= ?');
  const removeDeltas = db.prepare(
    `DELETE FROM rollup_deltas WHERE project = ?1 AND n IN (
       SELECT n FROM rollup_deltas WHERE project = ?1 LIMIT ${STEP_ROWS})`,
  );
  const removeRows = db.prepare(
    `DELETE FROM rollups WHERE project = ?1 AND (step, field, start, value) IN (
       SELECT step, field, start, value FROM rollups WHERE project = ?1 LIMIT ${STEP_ROWS})`,
  );
  return {
    'rollups.fold': ({ project, from, upTo, changes, rest }: FoldStep): void => {
      // An erasure folds too, and the project can have been deleted.
      if (!isWaiting(project, from)) return;
      drop.run(project, upTo);
      if (rest !== null) deltas.addRest(project, rest);
      const list = decodeJsonText(changes) as RollupChange[];
      const { saved, removed } = foldChanges(list, table.of(project));
      for (const row of saved) table.save(project, row);
      for (const key of removed) table.remove(project, key);
    },
    /** Removes rollups of a deleted project; returns whether more may be left. */
    'rollups.remove': (project: string): boolean =>
      Number(removeDeltas.run(project).changes) === STEP_ROWS ||
      Number(removeRows.run(project).changes) === STEP_ROWS,
  };
}

type SumCells = readonly [...numbers: number[], latencies: Uint8Array];

const KEY = 'project = ? AND step = ? AND field = ? AND start = ? AND value = ?';

class Table {
  readonly #find: RowQuery<SumCells>;
  readonly #count: (...values: (string | number)[]) => number | undefined;
  readonly #save: StatementSync;
  readonly #remove: StatementSync;

  constructor(db: DatabaseSync) {
    this.#find = tuples(
      db,
      `SELECT traces, observations, errors, input, output, cached, cost, latencies
       FROM rollups WHERE ${KEY}`,
    );
    this.#count = cell(
      db,
      'SELECT count(*) FROM rollups WHERE project = ? AND step = ? AND field = ? AND start = ?',
    );
    this.#save = db.prepare(
      'INSERT OR REPLACE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    );
    this.#remove = db.prepare(`DELETE FROM rollups WHERE ${KEY}`);
  }

  of(project: string): RollupTable {
    return {
      find: ({ step, field, start, value }) => {
        const cells = this.#find.get(project, step, field, start, value);
        return cells === undefined ? undefined : sumsOf(cells);
      },
      valuesOf: ({ step, field, start }) => this.#count(project, step, field, start) ?? 0,
    };
  }

  save(project: string, { step, field, start, value, numbers, latencies }: SavedRow): void {
    const bytes = encodeHistogram(latencies);
    this.#save.run(project, step, field, start, value, ...numbers, bytes);
  }

  remove(project: string, { step, field, start, value }: RollupKey): void {
    this.#remove.run(project, step, field, start, value);
  }
}

type SavedRow = RollupKey & RollupSums;

function sumsOf(cells: SumCells): RollupSums {
  const numbers = cells.slice(0, -1) as number[];
  const latencies = new Map<number, number>();
  addEncoded(latencies, cells.at(-1) as Uint8Array);
  return { numbers, latencies };
}

type DeltaCells = [n: number, kind: number, changes: string, characters: number];

export function foldReadOperations(db: DatabaseSync) {
  const next = cell<string | null>(db, 'SELECT min(project) FROM rollup_deltas WHERE project > ?');
  const newestOf = cell<number>(db, 'SELECT max(n) FROM rollup_deltas WHERE project = ?');
  const deltas = tuples<DeltaCells>(
    db,
    'SELECT n, kind, changes, length(changes) FROM rollup_deltas WHERE project = ? ORDER BY n',
  );
  function stepOf(project: string): FoldStep | null {
    const sum = new RollupDelta();
    let from: number | undefined;
    let upTo = 0;
    let characters = 0;
    for (const [n, kind, text, length] of deltas.iterate(project)) {
      if (from !== undefined && characters + length > STEP_CHARACTERS) break;
      characters += length;
      addStored(sum, { kind, text } satisfies StoredDelta);
      from ??= n;
      upTo = n;
    }
    if (from === undefined) return null;
    const changes = sum.changes();
    const rest = changes.splice(STEP_CHANGES);
    return {
      ...{ project, from, upTo, changes: JSON.stringify(changes) },
      rest: rest.length === 0 ? null : JSON.stringify(rest),
      newest: newestOf(project) ?? upTo,
    };
  }

  return {
    /** The next step of the first project behind one; null behind the last. */
    'rollups.toFold': (after: string): FoldStep | null => {
      const project = next(after) ?? null;
      return project === null ? null : stepOf(project);
    },
    /** The next step of a project; null without changes. */
    'rollups.toFoldOf': (project: string): FoldStep | null => stepOf(project),
  };
}
