import type { RankedTrace, RankField, RankStore } from '../../src/store/ranking.ts';
import { compareRanks } from '../../src/store/ranking.ts';
import type { StoredTrace } from '../../src/store/store.ts';
import type { HeldTraces } from './fake-traces.ts';

const VALUES: Readonly<Record<RankField, (trace: StoredTrace) => number | null>> = {
  latency: ({ latencyMs }) => latencyMs,
  cost: ({ cost }) => cost?.total ?? null,
  tokens: ({ usage }) => usage?.total_tokens ?? null,
};

/** Sorts traces in memory, all of them in one step. */
export function fakeRanks(project: () => string, held: HeldTraces): RankStore {
  const ours = (projectId: string): readonly StoredTrace[] =>
    projectId === project() ? (held.traces ?? []) : [];
  return {
    async rankTraces(projectId, { by, isAscending, limit, behind }) {
      const traces = ours(projectId)
        .map((trace, n): RankedTrace => ({ value: VALUES[by](trace) ?? -1, ms: 0, ns: 0, n }))
        .filter((one) => behind === null || compareRanks(behind, one, isAscending) < 0)
        .sort((a, b) => compareRanks(a, b, isAscending));
      return { traces: traces.slice(0, limit + 1), next: null, spentMs: 1 };
    },
    async tracesOf(projectId, numbers) {
      const all = ours(projectId);
      return new Map(numbers.flatMap((n) => (all[n] === undefined ? [] : [[n, all[n]] as const])));
    },
  };
}
