import type { Clock } from '../component/component.ts';
import type { Rest } from '../component/fair-turns.ts';

/** Accepting, which reads share the processors with. */
export type Accepting = {
  readonly clock: Clock;
  /** Requests of clients that send are in progress. */
  isAccepting(): boolean;
};

/** Milliseconds for which a request that was in progress counts: clients that send pause between their requests. */
export const ACCEPTING_MS = 1_000;
/** Milliseconds of rest for each millisecond of a turn. */
export const RESTS = 6;
/** The longest rest, in milliseconds. */
export const LONGEST_REST_MS = 120;

/**
 * Leaves accepting its share of the processors and of the store: while clients send, a turn at a store is followed by a rest of six times its length,
 * so that each place works for a seventh of the time.
 *
 *   turn: 12 ms ──▶ clients send? ──▶ rest: 72 ms ──▶ the next turn
 *
 * The last rests end with `close`.
 */
export type ReadPace = {
  /** A turn starts; the returned function is called when it has ended. */
  begun(): Rest;
  close(): void;
};

export function pacing({ clock, isAccepting }: Accepting): ReadPace {
  let acceptedAt = Number.NEGATIVE_INFINITY;
  /** Ends each rest that is in progress. */
  const resting = new Set<() => void>();

  function rest(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = (): void => {
      cancel();
      resting.delete(end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    resting.add(end);
    return promise;
  }

  return {
    begun() {
      const begunAt = clock.now();
      return () => {
        const now = clock.now();
        if (isAccepting()) acceptedAt = now;
        // A clock that was set back does not prolong the time.
        if (now - acceptedAt > ACCEPTING_MS || now < acceptedAt) return undefined;
        const ms = Math.min(LONGEST_REST_MS, (now - begunAt) * RESTS);
        return ms > 0 ? rest(ms) : undefined;
      };
    },
    close() {
      for (const end of resting) end();
    },
  };
}
