/** Adds the changes of writes to the rollups, in the database thread. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { cell, tuples } from '../../../src/sqlite/rows.ts';
import type { RollupChange } from '../../../src/store/rollups/contribution.ts';
import type { StoredDelta } from '../../../src/store/rollups/delta.ts';
import { addStored, DELTA_KINDS, RollupDelta } from '../../../src/store/rollups/delta.ts';
import type { RollupKey, RollupSums, RollupTable } from '../../../src/store/rollups/fold.ts';
import { foldChanges } from '../../../src/store/rollups/fold.ts';
import { addEncoded, encodeHistogram } from '../../../src/store/rollups/histogram.ts';

/** Changes that one step adds: some milliseconds. */
const STEP_CHANGES = 400;
/** Characters of the deltas that one step reads, beside the first one. */
const STEP_CHARACTERS = 262_144;
/** Rows that a step of a removal removes. */
const STEP_ROWS = 500;

/** The oldest deltas of a project, summed up. */
export type FoldStep = {
  readonly project: string;
  /** The number of the last delta. */
  readonly upTo: number;
  /** Characters of the deltas. */
  readonly characters: number;
  readonly changes: readonly RollupChange[];
  /** The changes that wait for the next step. */
  readonly rest: readonly RollupChange[];
};

/** Keeps what a write changed in the rollups of a project. */
export class DeltaLog {
  readonly #insert: StatementSync;
  readonly #contribution: RowQuery<[project: string, rollup: string | null]>;

  constructor(db: DatabaseSync) {
    this.#insert = db.prepare(
      `INSERT INTO rollup_deltas
       SELECT ?1, coalesce((SELECT max(n) FROM rollup_deltas WHERE project = ?1), 0) + 1, ?2, ?3`,
    );
    this.#contribution = tuples(db, 'SELECT project, rollup FROM traces WHERE n = ?');
  }

  add(project: string, delta: RollupDelta): void {
    const changes = delta.changes();
    if (changes.length === 0) return;
    this.addStored(project, { kind: DELTA_KINDS.CHANGES, text: JSON.stringify(changes) });
  }

  addStored(project: string, { kind, text }: StoredDelta): void {
    this.#insert.run(project, kind, text);
  }

  /** Subtracts what a trace contributed, before it is erased. */
  subtract(trace: number): void {
    const [project = '', rollup = null] = this.#contribution.get(trace) ?? [];
    if (rollup !== null) this.#insert.run(project, DELTA_KINDS.SUBTRACTED, `[${rollup}]`);
  }
}

export function rollupOperations(db: DatabaseSync) {
  const table = new Table(db);
  const charactersOf = cell<number>(
    db,
    'SELECT coalesce(sum(length(changes)), 0) FROM rollup_deltas WHERE project = ? AND n <= ?',
  );
  const drop = db.prepare('DELETE FROM rollup_deltas WHERE project = ? AND n <= ?');
  const keep = db.prepare('INSERT INTO rollup_deltas VALUES (?, ?, ?, ?)');
  const removeDeltas = db.prepare(
    `DELETE FROM rollup_deltas WHERE project = ?1 AND n IN (
       SELECT n FROM rollup_deltas WHERE project = ?1 LIMIT ${STEP_ROWS})`,
  );
  const removeRows = db.prepare(
    `DELETE FROM rollups WHERE project = ?1 AND (step, field, start, value) IN (
       SELECT step, field, start, value FROM rollups WHERE project = ?1 LIMIT ${STEP_ROWS})`,
  );
  return {
    'rollups.fold': ({ project, upTo, characters, changes, rest }: FoldStep): void => {
      // An erasure folds too, and the project can have been deleted. The rest of a step is shorter than its deltas.
      if (charactersOf(project, upTo) !== characters) return;
      drop.run(project, upTo);
      if (rest.length > 0) keep.run(project, upTo, DELTA_KINDS.CHANGES, JSON.stringify(rest));
      const { saved, removed } = foldChanges(changes, table.of(project));
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
  const deltas = tuples<DeltaCells>(
    db,
    'SELECT n, kind, changes, length(changes) FROM rollup_deltas WHERE project = ? ORDER BY n',
  );
  function stepOf(project: string): FoldStep | null {
    const sum = new RollupDelta();
    let upTo = 0;
    let characters = 0;
    for (const [n, kind, text, length] of deltas.iterate(project)) {
      if (upTo > 0 && characters + length > STEP_CHARACTERS) break;
      characters += length;
      addStored(sum, { kind, text } satisfies StoredDelta);
      upTo = n;
    }
    if (upTo === 0) return null;
    const changes = sum.changes();
    const rest = changes.splice(STEP_CHANGES);
    return { project, upTo, characters, changes, rest };
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
