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
    async find(projectId, id) {
      for (const [name, scores] of held) {
        const [project, traceId] = JSON.parse(name) as [string, string];
        const score = scores.find((each) => each.id === id);
        if (project === projectId && score !== undefined) return { traceId, score };
      }
      return undefined;
    },
    async remove(projectId, id) {
      let isRemoved = false;
      for (const [name, scores] of held) {
        if ((JSON.parse(name) as string[])[0] !== projectId) continue;
        const left = scores.filter((each) => each.id !== id);
        isRemoved ||= left.length < scores.length;
        held.set(name, left);
      }
      return isRemoved;
    },
    list: async (projectId, traceId) => held.get(JSON.stringify([projectId, traceId])) ?? [],
  };
}
