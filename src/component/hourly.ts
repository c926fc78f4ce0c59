import type { Clock } from './component.ts';

const HOUR_MS = 3_600_000;

/** Wraps a log line that many requests cause: the returned function calls it at once, and then at most once an hour. */
export function hourly(clock: Clock, line: () => void): () => void {
  let nextAt = Number.NEGATIVE_INFINITY;
  return () => {
    const now = clock.now();
    if (now < nextAt) return;
    nextAt = now + HOUR_MS;
    line();
  };
}
