import type { Clock } from '../component/component.ts';
import type { Rest } from './turns.ts';

/** The thread that reads share with accepting. */
export type PacedThread = {
  readonly clock: Clock;
  /** Milliseconds for which the event loop of this thread has been busy since the start. */
  busyMs(): number;
  /** Requests of clients that send are in progress. */
  isAccepting(): boolean;
};

/** Milliseconds for which a request that was in progress counts: clients that send pause between their requests. */
export const ACCEPTING_MS = 1_000;
/** Milliseconds of rest for each millisecond for which the thread was busy. */
export const RESTS = 2;
/** The longest rest, in milliseconds. */
export const LONGEST_REST_MS = 50;

/**
 * Leaves accepting a share of the thread: while clients send, a turn at a store is followed by a rest of twice the time for which
 * the thread was busy during the turn, with everything that it did. A store that reads in threads of its own keeps the thread idle, so that its rests are short.
 *
 *   turn: 12 ms, of which the thread is busy for 8 ──▶ clients send? ──▶ rest: 16 ms ──▶ the next turn
 *
 * @returns a function to call when a turn starts
 */
export function pacing({ clock, busyMs, isAccepting }: PacedThread): () => Rest {
  let acceptedAt = Number.NEGATIVE_INFINITY;
  return () => {
    const busyBefore = busyMs();
    return () => {
      const now = clock.now();
      if (isAccepting()) acceptedAt = now;
      if (now - acceptedAt > ACCEPTING_MS) return undefined;
      const ms = Math.min(LONGEST_REST_MS, Math.floor((busyMs() - busyBefore) * RESTS));
      if (ms < 1) return undefined;
      return new Promise((resolve) => clock.after(ms, resolve));
    };
  };
}
