/** Reads observations of several traces, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import { listedRow, rowBytes } from '../../../src/store/rows/listed.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import { FIRST_PLACE } from '../../../src/store/rows/place.ts';
import type { FoundCells, StoredRow } from './read-operations.ts';
import { PAGE_OF_TRACE, storedRow } from './read-operations.ts';

export function exportOperations(db: DatabaseSync) {
  const page = tuples<FoundCells>(db, PAGE_OF_TRACE.all);
  const { ms, ns, n } = FIRST_PLACE;
  const stored = storedRow(db);
  function* observationsIn(
    { project, since }: TraceScope,
    keys: readonly Key[],
    most: number,
  ): Generator<StoredRow> {
    for (const key of keys) {
      for (const cells of page.iterate(project, since, key, ms, ns, n, most)) {
        const each = stored(cells);
        yield { ...each, row: listedRow(each.row) };
      }
    }
  }
  return {
    /** The observations of the traces, in the order of the keys. */
    'traces.observationsOf': (
      scope: TraceScope,
      keys: readonly Key[],
      limit: number,
    ): FoundRows<StoredRow> =>
      takeRows(observationsIn(scope, keys, limit + 1), limit, ({ row }) => rowBytes(row)),
  };
}
