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
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import { postgresDialect } from './dialect.ts';
import { countsOfProbe, endOfLook } from './reading.ts';
import { textOrNull } from './text.ts';

type Counted = {
  readonly at_ms: number;
  readonly at_ns: number;
  readonly n: number;
  readonly observations: number;
};

type ObservedCell = { readonly trace: number; readonly cell: string };

/** One step of a walk over the values of a field of observations. */
export async function findValues(
  client: PostgresClient,
  scope: TraceScope,
  field: ObservedField,
  look: Look,
): Promise<Omit<ObservedRows, 'spentMs'>> {
  const ways = stepPlan(postgresDialect, scope, look);
  const plan = ways.by(countsOf(await countsOfProbe(client, ways.probe)));
  const end = plan.isSearch ? await endOfLook(client, plan.end) : null;
  const { sql, values } = plan.list(COUNTED_COLUMNS, end);
  const found = await rows<Counted>(client, sql, values);
  const listed = found.map(
    ({ at_ms: ms, at_ns: ns, n, observations }): CountedRow => [ms, ns, n, observations],
  );
  const taken = takeRows(listed, look.limit, observedBytes);
  const column = OBSERVED_COLUMNS[field];
  const numbers = taken.rows.map(([, , n]) => n);
  const cells = await rows<ObservedCell>(
    client,
    `SELECT DISTINCT trace, ${column} AS cell FROM observations
     WHERE trace = ANY ($1::bigint[]) AND ${column} IS NOT NULL`,
    [numbers],
  );
  const byTrace = Map.groupBy(cells, ({ trace }) => trace);
  const observed = taken.rows.map(([ms, ns, n]): ObservedRow => {
    const own = byTrace.get(n) ?? [];
    return [
      ms,
      ns,
      n,
      valuesIn(
        field,
        own.map(({ cell }) => textOrNull(cell) ?? ''),
      ),
    ];
  });
  return { rows: observed, hasMore: taken.hasMore, end };
}
