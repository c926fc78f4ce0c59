/** One step of a walk over traces (`src/store/plan`), in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import { LruCache } from '../../../src/component/lru.ts';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { Dialect, ListStatement } from '../../../src/store/plan/dialect.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import { countsOf, stepPlan } from '../../../src/store/plan/step.ts';
import type { Place } from '../../../src/store/rows/place.ts';

/** Statements that a thread keeps of each kind; each set of conditions is one. */
const MAX_STATEMENTS = 64;

type Row = readonly (string | number | Uint8Array | null)[];

/** Returns a function that reads the columns of the traces which a step finds, and the place up to which the step looks. */
export function stepReading<Columns extends Row>(db: DatabaseSync) {
  const countsOfProbe = probing(db);
  const endOfStep = endFinding(db);
  const statement = keptStatements<Columns>(db);
  return (
    dialect: Dialect,
    scope: TraceScope,
    look: Look,
    columns: string,
  ): { readonly found: Iterable<Columns>; readonly end: Place | null } => {
    const ways = stepPlan(dialect, scope, look);
    const plan = ways.by(countsOf(countsOfProbe(ways.probe)));
    const end = plan.isSearch ? endOfStep(plan.end) : null;
    const { sql, values } = plan.list(columns, end);
    return { found: statement(sql).iterate(...values), end };
  };
}

/** Returns a function that reads the cells of a probe; there are none without one. */
export function probing(db: DatabaseSync): (probe: ListStatement | undefined) => readonly number[] {
  const statement = keptStatements<number[]>(db);
  return (probe) => (probe === undefined ? [] : (statement(probe.sql).get(...probe.values) ?? []));
}

/** Returns a function that finds the place of the last trace that a step looks at; null if the range has fewer. */
export function endFinding(db: DatabaseSync): (end: ListStatement) => Place | null {
  const statement = keptStatements<[ms: number, ns: number, n: number]>(db);
  return ({ sql, values }) => {
    const last = statement(sql).get(...values);
    if (last === undefined) return null;
    const [ms, ns, n] = last;
    return { ms, ns, n };
  };
}

/** Returns a function that prepares each statement once: a page runs it in every step. */
export function keptStatements<Columns extends Row>(
  db: DatabaseSync,
): (sql: string) => RowQuery<Columns> {
  const prepared = new LruCache<string, RowQuery<Columns>>({ maxEntries: MAX_STATEMENTS });
  return (sql) => {
    const statement = prepared.get(sql) ?? tuples<Columns>(db, sql);
    prepared.set(sql, statement);
    return statement;
  };
}
