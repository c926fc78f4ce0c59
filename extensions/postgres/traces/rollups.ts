import { contributionPage } from '../../../src/store/rollups/contribution-page.ts';
import type { RollupReads } from '../../../src/store/rollups/reading.ts';
import { lookOf } from '../../../src/store/rows/trace-page.ts';
import type { Postgres } from '../connection/pool.ts';
import { findContributions, readFacet, readStats } from './rollup-reading.ts';
import { timed } from './step-reading.ts';
import type { Reading, RetentionWindows } from './traces.ts';

/** `database`: the connections of `client`, for reads of one snapshot. */
export function postgresRollups(
  database: Pick<Postgres, 'transaction'>,
  { client, dialect, staleBefore, now }: Reading,
  retention: RetentionWindows,
): RollupReads {
  return {
    facet: (projectId, asked) => timed(now, () => readFacet(database, projectId, asked)),
    stats: (projectId, asked) => readStats(database, projectId, asked),
    async listContributions(project, filter) {
      const look = lookOf(filter, staleBefore());
      const scope = { project, since: retention.since(project) };
      return contributionPage(
        await timed(now, () => findContributions(client, dialect, scope, look)),
      );
    },
  };
}
