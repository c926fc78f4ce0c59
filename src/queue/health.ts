import type { Clock } from '../component/component.ts';
import type { ComponentHealth } from '../component/health.ts';
import type { DurableQueue } from './queue.ts';

/** A backlog whose oldest entry stays the same for this long is not being delivered. */
const STALLED_MS = 60_000;

/**
 * What the queue says of itself: how much waits, since when, and whether it gets less. `disk` is that of a
 * directory of its own; another place that keeps the queue reports on its disk itself.
 */
export function queueHealth(
  queue: DurableQueue,
  clock: Clock,
  disk?: () => ComponentHealth,
  durability = 'synced to disk before the answer',
): () => ComponentHealth {
  /** Per branch its oldest entry, and since when it is known to be that. */
  const oldest = new Map<string, { at: number; since: number }>();

  function stalledBranches(now: number): string[] {
    return queue.stats().branches.flatMap(({ branch, oldestAt }) => {
      if (oldestAt === undefined) {
        oldest.delete(branch);
        return [];
      }
      const known = oldest.get(branch);
      if (known?.at === oldestAt) return now - known.since > STALLED_MS ? [branch] : [];
      oldest.set(branch, { at: oldestAt, since: now });
      return [];
    });
  }

  return () => {
    const now = clock.now();
    const { branches, bytes, maxBytes, deadLetters, quarantined } = queue.stats();
    const stalled = stalledBranches(now);
    const waiting = branches.flatMap(({ oldestAt }) => (oldestAt === undefined ? [] : [oldestAt]));
    const isFull = bytes >= maxBytes;
    const room = disk?.();
    return {
      ...room,
      ready: !isFull && room?.ready !== false,
      healthy: stalled.length === 0,
      ...(isFull ? { message: 'The queue is full.' } : {}),
      ...(stalled.length > 0 ? { message: `Nothing is delivered to ${stalled.join(', ')}.` } : {}),
      details: {
        ...room?.details,
        durability,
        queued_entries: branches.reduce((sum, { entries }) => sum + entries, 0),
        queued_items: branches.reduce((sum, { items }) => sum + items, 0),
        oldest_age_ms: waiting.length === 0 ? null : Math.max(0, now - Math.min(...waiting)),
        bytes,
        max_bytes: maxBytes,
        dead_letters: deadLetters,
        quarantined,
      },
    };
  };
}
