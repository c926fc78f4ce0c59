import type { Query } from '../../query/query.ts';
import { keyOfId } from '../rows/observation-row.ts';
import { conditionOf } from './conditions.ts';
import type { Dialect, ListStatement } from './dialect.ts';
import { Parameters } from './dialect.ts';
import type { TraceScope } from './step.ts';

/** Ids of one statement: it always has so many, so that it is prepared once for a query. */
export const MATCHED_IDS = 50;

/** The traces among those with the ids (at most `MATCHED_IDS`, at least one) that match a query, found by their keys. */
export function matchStatement(
  dialect: Dialect,
  { project, since }: TraceScope,
  { query, ids, staleBefore }: { query: Query; ids: readonly string[]; staleBefore: number },
  columns: string,
): ListStatement {
  const parameters = new Parameters(dialect);
  const keys = Array.from({ length: MATCHED_IDS }, (_, i) =>
    parameters.value(dialect.storedKey(keyOfId(ids[i] ?? ids[0] ?? ''))),
  );
  const where = [
    `t.project = ${parameters.value(project)}`,
    `t.key IN (${keys.join(', ')})`,
    `t.updated_at >= ${parameters.integer(since)}`,
    ...query.terms.map((term) => conditionOf(term, parameters, staleBefore)),
  ];
  return {
    sql: `SELECT ${columns} FROM traces t WHERE ${where.join(' AND ')}`,
    values: parameters.values,
  };
}
