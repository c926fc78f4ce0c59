import type { Clock } from '../../src/component/component.ts';

/** A clock that a test moves by hand. */
export type FakeClock = Clock & {
  /** Moves time on, calling back whatever falls due, in order of its time. */
  advance(ms: number): void;
  /** Jumps without calling anything back: forward as a suspended machine does, back as a clock that is set. */
  set(now: number): void;
  /** Sets the clock in no time. */
  misset(now: number): void;
  /** Timers that wait. */
  pending(): number;
};

/** The machine has been on for days at the start, unless a test says otherwise. */
const LONG_UPTIME_MS = 10 * 24 * 3_600_000;

export function fakeClock(
  start: number = Date.UTC(2026, 0, 15, 12, 0, 0),
  startUptime: number = LONG_UPTIME_MS,
): FakeClock {
  let now = start;
  let uptime = startUptime;
  let nextId = 0;
  const timers = new Map<number, { at: number; callback: () => void }>();

  /** The next timer of those until then. The map has them in the order of their ids. */
  function due(until: number): [number, { at: number; callback: () => void }] | undefined {
    let next: ReturnType<typeof due>;
    for (const each of timers) {
      if (each[1].at <= until && (next === undefined || each[1].at < next[1].at)) next = each;
    }
    return next;
  }

  return {
    now: () => now,
    uptime: () => uptime,
    after(ms, callback) {
      const id = nextId++;
      timers.set(id, { at: now + Math.max(0, ms), callback });
      return () => timers.delete(id);
    },
    advance(ms) {
      const until = now + ms;
      for (let next = due(until); next !== undefined; next = due(until)) {
        const [id, timer] = next;
        timers.delete(id);
        uptime += Math.max(0, timer.at - now);
        now = Math.max(now, timer.at);
        timer.callback();
      }
      uptime += until - now;
      now = until;
    },
    set(at) {
      uptime += Math.max(0, at - now);
      now = at;
    },
    misset(at) {
      now = at;
    },
    pending: () => timers.size,
  };
}
