import type { Clock } from './component.ts';

/** The longest a timer can be set for; beyond it Node would call back at once. */
const LONGEST_MS = 2_147_483_647;

/** The machine's time. The one place that reads it or sets a timer for components. */
export const systemClock: Clock = { now: () => Date.now(), after };

function after(ms: number, callback: () => void): () => void {
  if (ms > LONGEST_MS) return afterLong(ms, callback);
  const timer = setTimeout(callback, ms);
  timer.unref();
  return () => clearTimeout(timer);
}

function afterLong(ms: number, callback: () => void): () => void {
  let cancel = after(LONGEST_MS, () => {
    cancel = after(ms - LONGEST_MS, callback);
  });
  return () => cancel();
}
