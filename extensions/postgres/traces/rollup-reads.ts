import { contributionPage } from '../../../src/store/rollups/contribution-page.ts';
import type { RollupReads } from '../../../src/store/rollups/reading.ts';
import { lookOf } from '../../../src/store/rows/trace-page.ts';
import type { Postgres } from '../connection/pool.ts';
import { findContributions, readFacet, readStats } from './rollup-reading.ts';
import type { RetentionWindows } from './traces.ts';

type RollupReading = {
  readonly client: Pick<Postgres, 'query' | 'transaction'>;
  /** The time before which a trace without an end is interrupted. */
  staleBefore(): number;
  now(): number;
};

export function postgresRollups(
  { client, staleBefore, now }: RollupReading,
  retention: RetentionWindows,
): RollupReads {
  return {
    facet: (projectId, asked) => readFacet(client, projectId, asked),
    stats: (projectId, asked) => readStats(client, projectId, asked),
    async listContributions(project, filter) {
      const look = lookOf(filter, staleBefore());
      const begun = now();
      const scope = { project, since: retention.since(project) };
      const found = await findContributions(client, scope, look);
      return contributionPage({ ...found, spentMs: Math.max(0, now() - begun) });
    },
  };
}
