import { setTimeout as pause } from 'node:timers/promises';
import type { FakeClock } from './clock.ts';

const LONGEST_MS = 10_000;

/** Waits for a condition that only needs turns of the event loop; rejects after 10 s. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + LONGEST_MS;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not true within 10 s: ${condition}`);
    await pause(1);
  }
}

/** Advances the clock step by step until the condition is true. */
export async function advanceUntil(
  clock: FakeClock,
  stepMs: number,
  condition: () => boolean,
): Promise<void> {
  await until(() => {
    if (!condition()) clock.advance(stepMs);
    return condition();
  });
}
