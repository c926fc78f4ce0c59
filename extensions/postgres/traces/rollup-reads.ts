import { contributionPage } from '../../../src/store/rollups/contribution-page.ts';
import type { RollupReads } from '../../../src/store/rollups/reading.ts';
import { lookOf } from '../../../src/store/rows/trace-page.ts';
import type { Postgres } from '../connection/pool.ts';
import { findContributions, readFacet, readStats } from './rollup-reading.ts';
import type { Reading, RetentionWindows } from './traces.ts';

/** `database`: the connections of `client`, for reads of one snapshot. */
export function postgresRollups(
  database: Pick<Postgres, 'transaction'>,
  { client, dialect, staleBefore, now }: Reading,
  retention: RetentionWindows,
): RollupReads {
  return {
    async facet(projectId, asked) {
      const begun = now();
      const part = await readFacet(database, projectId, asked);
      return { ...part, spentMs: Math.max(0, now() - begun) };
    },
    stats: (projectId, asked) => readStats(database, projectId, asked),
    async listContributions(project, filter) {
      const look = lookOf(filter, staleBefore());
      const begun = now();
      const scope = { project, since: retention.since(project) };
      const found = await findContributions(client, dialect, scope, look);
      return contributionPage({ ...found, spentMs: Math.max(0, now() - begun) });
    },
  };
}
