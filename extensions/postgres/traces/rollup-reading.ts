/** Reads rollups. A read is a transaction with one snapshot, so it has each change once: in a row, or as a change. */
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import { countsOf, stepPlan } from '../../../src/store/plan/step.ts';
import { successorOf } from '../../../src/store/plan/successor.ts';
import type {
  ContributedRow,
  ContributionStep,
} from '../../../src/store/rollups/contribution-page.ts';
import {
  CONTRIBUTED_COLUMNS,
  contributedBytes,
} from '../../../src/store/rollups/contribution-page.ts';
import { storedChanges } from '../../../src/store/rollups/delta.ts';
import { ROLLUP_FIELDS } from '../../../src/store/rollups/fields.ts';
import type {
  FacetAsked,
  FacetPart,
  RollupSpan,
  StatsAsked,
  StatsRows,
} from '../../../src/store/rollups/reading.ts';
import { FacetSum, StatsSum, spansOf, statsSpans } from '../../../src/store/rollups/reading.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient, Question, Statement } from '../connection/statement.ts';
import { question, rows } from '../connection/statement.ts';
import type { PackedCells, PackedRows } from './packed-rows.ts';
import { eachPacked, packedCells, packedTogether } from './packed-rows.ts';
import { countsOfProbe, endOfLook } from './reading.ts';
import { escapeText } from './text.ts';

type Database = Pick<Postgres, 'transaction'>;

const ONE_SNAPSHOT = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY';
const PENDING = 'SELECT kind, changes FROM rollup_deltas WHERE project = $1 ORDER BY n';

type PendingRow = { readonly kind: number; readonly changes: string };

export async function readFacet(
  database: Database,
  project: string,
  asked: FacetAsked,
): Promise<Omit<FacetPart, 'spentMs'>> {
  const sum = new FacetSum(asked);
  const field = ROLLUP_FIELDS[asked.field];
  const prefix = escapeText(asked.prefix);
  const behind = successorOf(prefix) ?? null;
  const facet = (span: RollupSpan, of: number, from: string, to: string | null): Question<void> =>
    question(facetStatement(project, span, of, from, to), (found: readonly PackedRows[]) => {
      eachPacked(found, (cells) => sum.add(of, cells.text() ?? '', cells.number()));
    });
  await readTogether(database, project, sum, [
    ...spansOf(asked.hours).flatMap((span) => [
      facet(span, field, prefix, behind),
      facet(span, -field, '', null),
    ]),
  ]);
  return sum.part();
}

const FACET_CELLS = packedCells(['value', 'sum(traces)']);

function facetStatement(
  project: string,
  { step, from, to }: RollupSpan,
  field: number,
  first: string,
  behind: string | null,
): Statement {
  return [
    packedTogether(`SELECT ${FACET_CELLS} FROM rollups
     WHERE project = $1 AND step = $2 AND field = $3 AND start >= $4 AND start < $5
       AND value >= $6 AND ($7::text IS NULL OR value < $7) GROUP BY value`),
    [project, step, field, from, to, first, behind],
  ];
}

export async function readStats(
  database: Database,
  project: string,
  asked: StatsAsked,
): Promise<StatsRows> {
  const sum = new StatsSum(asked);
  const field = ROLLUP_FIELDS[asked.field];
  const stats = (statement: Statement, of: number): Question<void> =>
    question(statement, (found: readonly PackedRows[]) => {
      eachPacked(found, (cells) => sum.addRow({ field: of, ...statsRow(cells) }));
    });
  await readTogether(database, project, sum, [
    ...statsSpans(asked).flatMap((span) => [
      stats(
        asked.values === null
          ? spanStatement(project, span, field)
          : valuesStatement(project, span, field, asked.values),
        field,
      ),
      ...(field === 0 ? [] : [stats(spanStatement(project, span, -field), -field)]),
    ]),
  ]);
  return sum.rows();
}

const NUMBERS = ['traces', 'observations', 'errors', 'input', 'output', 'cached', 'cost'];
const STATS_CELLS = packedCells([
  ...['start', ...NUMBERS].map((column) => `r.${column}`),
  ...["encode(r.latencies, 'hex')", 'r.value'],
]);

function spanStatement(project: string, { step, from, to }: RollupSpan, field: number): Statement {
  return [
    packedTogether(`SELECT ${STATS_CELLS} FROM rollups r
     WHERE r.project = $1 AND r.step = $2 AND r.field = $3 AND r.start >= $4 AND r.start < $5`),
    [project, step, field, from, to],
  ];
}

/** A lookup for each value in each period. OFFSET 0 keeps the planner from reading the whole span. */
function valuesStatement(
  project: string,
  { step, from, to }: RollupSpan,
  field: number,
  values: readonly string[],
): Statement {
  return [
    packedTogether(`SELECT ${STATS_CELLS} FROM generate_series($4::bigint, $5::bigint - 1, $2::bigint) AS p (start)
     CROSS JOIN LATERAL (
       SELECT * FROM rollups WHERE project = $1 AND step = $2 AND field = $3 AND start = p.start
         AND value = ANY ($6::text[]) OFFSET 0
     ) r`),
    [project, step, field, from, to, values.map(escapeText)],
  ];
}

/** Hot path: a month by hour has thousands of rows. */
function statsRow(cells: PackedCells) {
  const start = cells.number();
  const numbers = NUMBERS.map(() => cells.number());
  return { start, numbers, latencies: cells.bytes(), value: cells.text() ?? '' };
}

async function readTogether(
  database: Database,
  project: string,
  sum: FacetSum | StatsSum,
  questions: readonly Question<void>[],
): Promise<void> {
  const pending = question([PENDING, [project]], (found: readonly PendingRow[]) => {
    for (const { kind, changes } of found) {
      for (const change of storedChanges(kind, changes)) sum.addChange(change);
    }
  });
  const snapshot = question([ONE_SNAPSHOT, []], () => undefined);
  await database.transaction((client) => client.together([snapshot, ...questions, pending]));
}

type ContributedTableRow = {
  readonly at_ms: number;
  readonly at_ns: number;
  readonly n: number;
  readonly rollup: string | null;
};

/** One step of a search, as `findTraces`. */
export async function findContributions(
  client: PostgresClient,
  dialect: Dialect,
  scope: TraceScope,
  look: Look,
): Promise<Omit<ContributionStep, 'spentMs'>> {
  const ways = stepPlan(dialect, scope, look);
  const plan = ways.by(countsOf(await countsOfProbe(client, ways.probe)));
  const end = plan.isSearch ? await endOfLook(client, plan.end) : null;
  const { sql, values } = plan.list(CONTRIBUTED_COLUMNS, end);
  const found = await rows<ContributedTableRow>(client, sql, values);
  const listed = found.map(
    ({ at_ms: ms, at_ns: ns, n, rollup }): ContributedRow => [ms, ns, n, rollup],
  );
  return { ...takeRows(listed, look.limit, contributedBytes), end };
}
