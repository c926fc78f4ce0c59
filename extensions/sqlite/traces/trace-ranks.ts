import type { Database } from '../../../src/sqlite/database.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import type { RankStore } from '../../../src/store/ranking.ts';
import { traceOf } from '../../../src/store/rows/stored.ts';
import type { Retention } from '../../../src/tenancy/retention.ts';
import type { StoreOperations } from '../operations.ts';

export function sqliteRanks(
  database: Database<StoreOperations>,
  retention: Pick<Retention, 'since'>,
  staleBefore: () => number,
): RankStore {
  const scopeOf = (project: string): TraceScope => ({ project, since: retention.since(project) });
  return {
    rankTraces(projectId, look) {
      const step = { ...look, staleBefore: staleBefore() };
      return database.search('ranks.find', [scopeOf(projectId), step]);
    },
    async tracesOf(projectId, numbers) {
      const found = await database.search('ranks.traces', [scopeOf(projectId), numbers]);
      const stale = staleBefore();
      return new Map(found.map((row) => [row[0], traceOf(row, stale)]));
    },
  };
}
