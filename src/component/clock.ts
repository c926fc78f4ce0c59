import { uptime } from 'node:os';
import type { Clock } from './component.ts';

/** The longest timeout of Node. A longer one would fire at once. */
const LONGEST_MS = 2_147_483_647;

/** The time of the machine. Only this file reads it and sets timers for components. */
export const systemClock: Clock = {
  now: () => Date.now(),
  uptime: () => uptime() * 1000,
  after,
};

/** Resolves after `ms`. */
export function pause(clock: Pick<Clock, 'after'>, ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  clock.after(ms, resolve);
  return promise;
}

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
