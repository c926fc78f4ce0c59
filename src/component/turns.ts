import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from './component.ts';

/** Milliseconds that work on the event loop may take before others get a turn. */
const TURN_MS = 20;

/** Runs the steps to the end, and lets the event loop serve others after each 20 ms. */
export async function inTurns(steps: Iterable<unknown>, clock: Clock): Promise<void> {
  let end = clock.now() + TURN_MS;
  for (const _ of steps) {
    if (clock.now() <= end) continue;
    await nextTurn();
    end = clock.now() + TURN_MS;
  }
}
