import type { FoundGroup, GroupLook, GroupStore } from '../../src/store/groups.ts';
import { groupSumsOf } from '../../src/store/rows/group-rows.ts';
import type { StoredTrace } from '../../src/store/store.ts';
import type { HeldTraces } from './fake-traces.ts';

/** Sessions and users of traces in memory, each step of which looks at all traces. */
export function fakeGroups(project: () => string, held: HeldTraces): GroupStore {
  const groupValue = (trace: StoredTrace, by: GroupLook['by']): string | null =>
    by === 'session' ? trace.sessionId : trace.userId;
  const ours = (projectId: string): readonly StoredTrace[] =>
    projectId === project() ? (held.traces ?? []) : [];
  return {
    async findGroups(projectId, { by }) {
      const groups = new Map<string, FoundGroup>();
      for (const [n, trace] of ours(projectId).entries()) {
        const value = groupValue(trace, by);
        if (value === null || groups.has(value)) continue;
        groups.set(value, { value, userId: trace.userId, place: { ms: 0, ns: 0, n } });
      }
      return { groups: [...groups.values()], next: null, spentMs: 1 };
    },
    async sumGroup(projectId, value, { by }) {
      const { length } = ours(projectId).filter((trace) => groupValue(trace, by) === value);
      const sums = [length, length, 0, null, null, null, null, 0, 0, 0, 0, null] as const;
      return { sums: groupSumsOf(sums, []), next: null, spentMs: 1 };
    },
  };
}
