/** Finds the first traces by a value. */
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import type { RankStepLook } from '../../../src/store/plan/ranking.ts';
import { rankPlan } from '../../../src/store/plan/ranking.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import { countsOf } from '../../../src/store/plan/step.ts';
import type { RankedTrace, RankStep, RankStore } from '../../../src/store/ranking.ts';
import { traceOf } from '../../../src/store/rows/stored.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import { findTracesByNumber } from './reading.ts';
import { countsOfProbe, endOfStep, timed } from './step-reading.ts';
import type { Reading, RetentionWindows } from './traces.ts';

export function postgresRanks(
  retention: RetentionWindows,
  { client, dialect, staleBefore, now }: Reading,
): RankStore {
  return {
    rankTraces(project, look) {
      const scope = { project, since: retention.since(project) };
      const step = { ...look, staleBefore: staleBefore() };
      return timed(now, () => findRanks(client, dialect, scope, step));
    },
    async tracesOf(project, numbers) {
      const found = await findTracesByNumber(client, [project, retention.since(project)], numbers);
      const stale = staleBefore();
      return new Map(found.map((row) => [row[0], traceOf(row, stale)]));
    },
  };
}

type RankRow = {
  readonly value: number;
  readonly at_ms: number;
  readonly at_ns: number;
  readonly n: number;
};

async function findRanks(
  client: PostgresClient,
  dialect: Dialect,
  scope: TraceScope,
  look: RankStepLook,
): Promise<Omit<RankStep, 'spentMs'>> {
  const plan = rankPlan(dialect, scope, look);
  const statements = plan.by(countsOf(await countsOfProbe(client, plan.probe)));
  const next = await endOfStep(client, statements.end);
  const { sql, values } = statements.list(next);
  const found = await rows<RankRow>(client, sql, values);
  const traces = found.map(
    ({ value, at_ms: ms, at_ns: ns, n }): RankedTrace => ({ value, ms, ns, n }),
  );
  return { traces, next };
}
