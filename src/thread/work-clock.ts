/** Measures work of this thread: the returned function has its processor time until then, in milliseconds. */
export function workClock(): () => number {
  const begunAt = performance.now();
  const begun = threadTime();
  return () => Math.min(threadTime() - begun, performance.now() - begunAt);
}

/**
 * Milliseconds. Linux adds the processor time of a running thread up at ticks and when the thread sleeps, which leaves out work that is
 * shorter than a tick. It brings the time of the calling thread up to date for a reading of all threads.
 */
function threadTime(): number {
  process.cpuUsage();
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
