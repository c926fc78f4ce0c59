import type { Clock } from './component.ts';

/** The clock and the uptime of the machine at one time, in milliseconds. */
export type ClockLook = { readonly now: number; readonly uptime: number };

export function lookAt(clock: Pick<Clock, 'now' | 'uptime'>): ClockLook {
  return { now: clock.now(), uptime: clock.uptime() };
}

/** By how much the clock was set between two looks: what passed by it, without what passed by the uptime. Negative if it was set back. */
export function jumpBetween(before: ClockLook, after: ClockLook): number {
  return after.now - before.now - (after.uptime - before.uptime);
}
