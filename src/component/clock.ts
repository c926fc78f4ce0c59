import type { Clock } from './component.ts';

/** The machine's time. The one place that reads it or sets a timer for components. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};
