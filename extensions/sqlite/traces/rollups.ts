import type { Database } from '../../../src/sqlite/database.ts';
import { contributionPage } from '../../../src/store/rollups/contribution-page.ts';
import type { RollupReads } from '../../../src/store/rollups/reading.ts';
import { lookOf } from '../../../src/store/rows/trace-page.ts';
import type { Retention } from '../../../src/tenancy/retention.ts';
import type { StoreOperations } from '../operations.ts';

/** `staleBefore`: the time before which a trace without an end is interrupted. */
export function sqliteRollups(
  database: Pick<Database<StoreOperations>, 'search'>,
  retention: Pick<Retention, 'since'>,
  staleBefore: () => number,
): RollupReads {
  return {
    facet: (projectId, asked) => database.search('rollups.facet', [projectId, asked]),
    stats: (projectId, asked) => database.search('rollups.stats', [projectId, asked]),
    async listContributions(projectId, filter) {
      const scope = { project: projectId, since: retention.since(projectId) };
      const look = lookOf(filter, staleBefore());
      return contributionPage(await database.search('rollups.contributions', [scope, look]));
    },
  };
}
