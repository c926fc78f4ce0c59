/** Reads the values of fields of observations, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import { LruCache } from '../../../src/component/lru.ts';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import { countsOf, stepPlan } from '../../../src/store/plan/step.ts';
import type {
  CountedRow,
  ObservedField,
  ObservedRow,
  ObservedRows,
} from '../../../src/store/rows/observed-values.ts';
import {
  COUNTED_COLUMNS,
  OBSERVED_COLUMNS,
  observedBytes,
  valuesIn,
} from '../../../src/store/rows/observed-values.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import { sqliteDialect } from './dialect.ts';
import type { PlaceCells } from './read-operations.ts';
import { endOfStep, keptTuples, MAX_STATEMENTS, probedCounts } from './read-operations.ts';

export function valueOperations(db: DatabaseSync) {
  const lists = new LruCache<string, RowQuery<CountedRow>>({ maxEntries: MAX_STATEMENTS });
  const ends = new LruCache<string, RowQuery<PlaceCells>>({ maxEntries: MAX_STATEMENTS });
  const probes = new LruCache<string, RowQuery<number[]>>({ maxEntries: MAX_STATEMENTS });
  const cells = {
    name: cellsOf(db, 'name'),
    details: cellsOf(db, 'details'),
    error: cellsOf(db, 'error'),
  };
  return {
    'traces.values': (scope: TraceScope, field: ObservedField, look: Look): ObservedRows => {
      const before = process.threadCpuUsage();
      const ways = stepPlan(sqliteDialect, scope, look);
      const plan = ways.by(countsOf(probedCounts(db, probes, ways.probe)));
      const end = plan.isSearch ? endOfStep(db, ends, plan.end) : null;
      const { sql, values } = plan.list(COUNTED_COLUMNS, end);
      const found = keptTuples(db, lists, sql).iterate(...values);
      const taken = takeRows(found, look.limit, observedBytes);
      const cellsIn = cells[OBSERVED_COLUMNS[field]];
      const rows = taken.rows.map(([ms, ns, n]): ObservedRow => {
        return [ms, ns, n, valuesIn(field, cellsIn(n))];
      });
      const { user, system } = process.threadCpuUsage(before);
      return { rows, hasMore: taken.hasMore, end, spentMs: (user + system) / 1000 };
    },
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
