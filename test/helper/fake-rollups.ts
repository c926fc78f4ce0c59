import type { RollupReads } from '../../src/store/rollups/reading.ts';

/** Rollups of one project that has a trace a step, of one user. */
export function fakeRollups(project: () => string): RollupReads {
  const isOurs = (projectId: string): boolean => projectId === project();
  return {
    facet: async (projectId) => ({
      values: isOurs(projectId) ? [['user-1', 1]] : [],
      ...{ others: 0, spentMs: 1 },
    }),
    stats: async (projectId, { hours, isGrouped }) => ({
      points: isOurs(projectId)
        ? [
            {
              ...{ key: isGrouped ? 'user-1' : null, time: hours.from * 3_600_000 },
              ...{ numbers: [1, 2, 0, 10, 5, 0, 1000], latencies: [1, 2, null] },
            },
          ]
        : [],
      isIncomplete: false,
    }),
    listContributions: async () => ({ items: [], nextCursor: null, searchedTo: null, spentMs: 1 }),
  };
}
