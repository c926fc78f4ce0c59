import type { Score, ScoreStore } from '../../src/store/scores.ts';

/** Scores in memory. */
export function fakeScores(): ScoreStore {
  const held = new Map<string, Score[]>();
  return {
    async put(projectId, traceId, { at, ...score }, most) {
      const name = JSON.stringify([projectId, traceId]);
      const others = (held.get(name) ?? []).filter(({ id }) => id !== score.id);
      if (others.length >= most) return 'full';
      const stored = { ...score, createdAt: at };
      held.set(name, [...others, stored]);
      return stored;
    },
    list: async (projectId, traceId) => held.get(JSON.stringify([projectId, traceId])) ?? [],
  };
}
