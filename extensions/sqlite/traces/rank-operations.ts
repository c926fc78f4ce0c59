/** Finds the first traces by a value, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import { tuples } from '../../../src/sqlite/rows.ts';
import type { RankStepLook } from '../../../src/store/plan/ranking.ts';
import { rankPlan } from '../../../src/store/plan/ranking.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import { countsOf } from '../../../src/store/plan/step.ts';
import type { RankStep } from '../../../src/store/ranking.ts';
import { listedTraceRow } from '../../../src/store/rows/listed.ts';
import type { TraceRow } from '../../../src/store/rows/stored.ts';
import { workClock } from '../../../src/thread/work-clock.ts';
import { queryRunner } from '../search/dialect.ts';
import { LISTED_TRACE } from './read-operations.ts';
import { endFinding, keptStatements, probing } from './step-reading.ts';

type RankCells = [value: number, ms: number, ns: number, n: number];

export function rankOperations(db: DatabaseSync) {
  const runQuery = queryRunner(db);
  const countsOfProbe = probing(db);
  const endOfStep = endFinding(db);
  const statement = keptStatements<RankCells>(db);
  const byNumber = tuples<TraceRow>(
    db,
    `SELECT ${LISTED_TRACE} FROM traces t
     WHERE t.n IN (SELECT value FROM json_each(?)) AND +t.project = ? AND t.updated_at >= ?`,
  );
  return {
    'ranks.find': (scope: TraceScope, look: RankStepLook): RankStep =>
      runQuery(look.query, (dialect) => {
        const spent = workClock();
        const plan = rankPlan(dialect, scope, look);
        const statements = plan.by(countsOf(countsOfProbe(plan.probe)));
        const next = endOfStep(statements.end);
        const { sql, values } = statements.list(next);
        const traces = statement(sql)
          .all(...values)
          .map(([value, ms, ns, n]) => ({ value, ms, ns, n }));
        return { traces, next, spentMs: spent() };
      }),
    'ranks.traces': ({ project, since }: TraceScope, numbers: readonly number[]): TraceRow[] =>
      byNumber.all(JSON.stringify(numbers), project, since).map(listedTraceRow),
  };
}
