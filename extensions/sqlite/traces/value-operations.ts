/** Reads the values of fields of observations, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import type {
  CountedField,
  CountedRow,
  CountedStep,
} from '../../../src/store/rows/observed-values.ts';
import {
  countedBytes,
  countedColumns,
  isObservedField,
  lastPlace,
  OBSERVED_COLUMNS,
  ValueCounts,
} from '../../../src/store/rows/observed-values.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import { workClock } from '../../../src/thread/work-clock.ts';
import { queryRunner } from '../search/dialect.ts';
import { stepReading } from './step-reading.ts';

export function valueOperations(db: DatabaseSync) {
  const runQuery = queryRunner(db);
  const readStep = stepReading<CountedRow>(db);
  const cells = {
    name: cellsOf(db, 'name'),
    details: cellsOf(db, 'details'),
    error: cellsOf(db, 'error'),
  };
  return {
    'traces.values': (scope: TraceScope, field: CountedField, look: Look): CountedStep =>
      runQuery(look.query, (dialect) => {
        const spent = workClock();
        const { found, end } = readStep(dialect, scope, look, countedColumns(field));
        const { rows, hasMore } = takeRows(found, look.limit, countedBytes);
        const counts = new ValueCounts(field, look);
        if (isObservedField(field)) {
          const cellsIn = cells[OBSERVED_COLUMNS[field]];
          for (const [, , n] of rows) counts.addObservations(cellsIn(n));
        } else for (const [, , , cell] of rows) counts.addTrace(cell);
        return { counts: counts.list(), last: lastPlace(rows), hasMore, end, spentMs: spent() };
      }),
  };
}

/** The cells of a column in a trace. */
function cellsOf(db: DatabaseSync, column: string): (trace: number) => Generator<string> {
  const found = tuples<[cell: string]>(
    db,
    `SELECT ${column} FROM observations WHERE trace = ? AND ${column} IS NOT NULL`,
  );
  return function* (trace) {
    for (const [cell] of found.iterate(trace)) yield cell;
  };
}
