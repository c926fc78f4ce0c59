import { setTimeout as pause } from 'node:timers/promises';
import type { FakeClock } from './clock.ts';

/** Only bounds a test that hangs: a busy machine may take many times as long as an idle one. */
const LONGEST_MS = 60_000;

/** Waits for a condition that only needs turns of the event loop; rejects after a minute. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + LONGEST_MS;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not true within a minute: ${condition}`);
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
