import type { Clock } from '../component/component.ts';
import type { ComponentHealth } from '../component/health.ts';
import { backlogAgeSeconds, oldestAgeSeconds } from './gauges.ts';
import type { DurableQueue } from './queue.ts';

/** A branch whose oldest entry stays the same for longer than this is stalled. */
const STALLED_MS = 60_000;

type QueueHealthOptions = {
  /** The health of the queue's own directory; a store reports on its disk itself. */
  readonly disk?: (() => ComponentHealth) | undefined;
  /** Shown in the details. */
  readonly durability?: string;
  /** Milliseconds after which a waiting entry slows accepting down; 0 for none. */
  readonly maxBacklogAge?: number;
};

/** Reports the backlog, its age and whether it shrinks. */
export function queueHealth(
  queue: DurableQueue,
  clock: Clock,
  {
    disk,
    durability = 'synced to disk before the answer',
    maxBacklogAge = 0,
  }: QueueHealthOptions = {},
): () => ComponentHealth {
  /** The oldest entry of each branch, and since when it is the oldest one seen. */
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
        oldest_age_seconds: oldestAgeSeconds(branches, now),
        backlog_age_seconds: backlogAgeSeconds(queue, now),
        ...(maxBacklogAge === 0 ? {} : { max_backlog_age_seconds: maxBacklogAge / 1000 }),
        bytes,
        // A consumer of a shared queue sets no bound.
        ...(maxBytes === Number.MAX_SAFE_INTEGER ? {} : { max_bytes: maxBytes }),
        dead_letters: deadLetters,
        quarantined,
      },
    };
  };
}
