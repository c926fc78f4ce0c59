import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import type {
  CountedField,
  CountedRow,
  CountedStep,
  ObservedField,
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
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import { readStep } from './step-reading.ts';
import { textOrNull } from './text.ts';
import type { Reading } from './traces.ts';

type Counted = {
  readonly at_ms: number;
  readonly at_ns: number;
  readonly n: number;
  readonly cell: number | string | null;
};

type ObservedCell = { readonly trace: number; readonly cell: string };

/** One step of a walk over the values of a field. */
export async function countValues(
  { client, dialect }: Pick<Reading, 'client' | 'dialect'>,
  scope: TraceScope,
  field: CountedField,
  look: Look,
): Promise<Omit<CountedStep, 'spentMs'>> {
  const columns = `${countedColumns(field)} AS cell`;
  const { found, end } = await readStep<Counted>(client, dialect, scope, look, columns);
  const listed = found.map(
    ({ at_ms: ms, at_ns: ns, n, cell }): CountedRow => [
      ...([ms, ns, n] as const),
      typeof cell === 'string' ? textOrNull(cell) : cell,
    ],
  );
  const { rows: traces, hasMore } = takeRows(listed, look.limit, countedBytes);
  const counts = new ValueCounts(field, look);
  if (isObservedField(field)) await countObservations(client, field, traces, counts);
  else for (const [, , , cell] of traces) counts.addTrace(cell);
  return { counts: counts.list(), last: lastPlace(traces), hasMore, end };
}

async function countObservations(
  client: PostgresClient,
  field: ObservedField,
  traces: readonly CountedRow[],
  counts: ValueCounts,
): Promise<void> {
  const column = OBSERVED_COLUMNS[field];
  const cells = await rows<ObservedCell>(
    client,
    `SELECT DISTINCT trace, ${column} AS cell FROM observations
     WHERE trace = ANY ($1::bigint[]) AND ${column} IS NOT NULL`,
    [traces.map(([, , n]) => n)],
  );
  for (const own of Map.groupBy(cells, ({ trace }) => trace).values()) {
    counts.addObservations(own.map(({ cell }) => textOrNull(cell) ?? ''));
  }
}
