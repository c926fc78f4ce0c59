import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { Contribution } from '../../../src/store/rollups/contribution.ts';
import { RollupDelta } from '../../../src/store/rollups/delta.ts';
import { HIDDEN } from '../batches/purge-operations.ts';
import { DeltaLog } from './rollup-operations.ts';
import { SUMMARY_ASSIGNMENTS } from './statements.ts';

/** A trace, the cells of its summary, and what it contributes to the rollups. */
type SavedSummary = {
  readonly n: number;
  readonly cells: readonly (string | number | null)[];
  readonly contribution: Contribution;
};

/** `changes`: the writes since the trace was summarized. */
type StoredSummary = { readonly changes: number };

/** Saves summaries that are not made by the write of an observation. */
export class SummarySaver {
  readonly #find: RowQuery<[project: string, changes: number, rollup: string | null]>;
  readonly #save: StatementSync;
  readonly #deltas: DeltaLog;

  constructor(db: DatabaseSync) {
    this.#find = tuples(db, 'SELECT project, stale_changes, rollup FROM traces WHERE n = ?');
    this.#save = db.prepare(`UPDATE traces SET ${SUMMARY_ASSIGNMENTS} WHERE n = ?`);
    this.#deltas = new DeltaLog(db);
  }

  /** Without effect if the trace is gone, is being removed, or is not as it should be. */
  save(
    { n, cells, contribution }: SavedSummary,
    isWanted: (stored: StoredSummary) => boolean = () => true,
  ): void {
    const found = this.#find.get(n);
    if (found === undefined) return;
    const [project, changes, rollup] = found;
    if (project === HIDDEN || !isWanted({ changes })) return;
    const delta = new RollupDelta();
    delta.replace(rollup, contribution);
    this.#save.run(...cells, n);
    this.#deltas.add(project, delta);
  }
}
