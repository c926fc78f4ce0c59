import type { Database } from '../../../src/sqlite/database.ts';
import type { GroupStore } from '../../../src/store/groups.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import type { Retention } from '../../../src/tenancy/retention.ts';
import type { StoreOperations } from '../operations.ts';

/** `staleBefore`: the time before which a trace without an end is interrupted. */
export function sqliteGroups(
  database: Database<StoreOperations>,
  retention: Retention,
  staleBefore: () => number,
): GroupStore {
  const scopeOf = (project: string): TraceScope => ({ project, since: retention.since(project) });
  return {
    findGroups: (projectId, look) =>
      database.search('groups.find', [scopeOf(projectId), { ...look, staleBefore: staleBefore() }]),
    sumGroup: (projectId, value, look) =>
      database.search('groups.sum', [
        scopeOf(projectId),
        value,
        { ...look, staleBefore: staleBefore() },
      ]),
  };
}
