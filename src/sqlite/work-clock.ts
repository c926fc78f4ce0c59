/**
 * Linux adds the processor time of a running thread up at ticks and when the thread sleeps: what is read at the end of an operation
 * lacks the time since the last tick, 2 ms on average.
 */
const UNCOUNTED_MS = 2;

/** Measures work of this thread: the returned function has its processor time until then, in milliseconds. */
export function workClock(): () => number {
  const begunAt = performance.now();
  const begun = process.threadCpuUsage();
  return () => {
    const { user, system } = process.threadCpuUsage(begun);
    const counted = (user + system) / 1000;
    return Math.min(counted + UNCOUNTED_MS, performance.now() - begunAt);
  };
}
