import type { Clock } from './component.ts';

const HOUR_MS = 3_600_000;

/**
 * Spaces log lines that many requests or clients can cause. The returned function gives the number of lines that were left out since the
 * last one of the same name, or undefined if less than `ms` has passed since: then the line is left out, too. A clock that goes back by
 * more than that starts over. The names must be few.
 */
export function lineSpacing(
  clock: Pick<Clock, 'now'>,
  ms: number,
): (name?: string) => number | undefined {
  const written = new Map<string, { readonly at: number; leftOut: number }>();
  return (name = '') => {
    const now = clock.now();
    const last = written.get(name);
    if (last !== undefined && Math.abs(now - last.at) < ms) {
      last.leftOut++;
      return undefined;
    }
    written.set(name, { at: now, leftOut: 0 });
    return last?.leftOut ?? 0;
  };
}

/** Wraps a line that needs no count: the returned function calls it at once, and then at most once an hour. */
export function hourly(clock: Pick<Clock, 'now'>, line: () => void): () => void {
  const spacing = lineSpacing(clock, HOUR_MS);
  return () => {
    if (spacing() !== undefined) line();
  };
}
