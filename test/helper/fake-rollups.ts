import { PointSums } from '../../src/store/rollups/points.ts';
import type { RollupReads } from '../../src/store/rollups/reading.ts';

const HOUR_MS = 3_600_000;

/** Rollups of one project that has a trace a step, of one user. */
export function fakeRollups(project: () => string): RollupReads {
  const isOurs = (projectId: string): boolean => projectId === project();
  return {
    facet: async (projectId) => ({
      values: isOurs(projectId) ? [['user-1', 1]] : [],
      ...{ left: 0, others: 0, spentMs: 1 },
    }),
    stats: async (projectId, { hours, isGrouped }) => {
      const sums = new PointSums(HOUR_MS);
      const [key, time] = [isGrouped ? 'user-1' : null, hours.from * HOUR_MS];
      if (isOurs(projectId)) sums.add(key, time, [1, 2, 0, 10, 5, 0, 1000], [60, 1]);
      return { points: sums.points(), isIncomplete: false };
    },
    listContributions: async () => ({ items: [], nextCursor: null, searchedTo: null, spentMs: 1 }),
  };
}
