import { setImmediate as nextTurn } from 'node:timers/promises';
import { tooLate } from '../model/errors.ts';
import type { Clock } from './component.ts';

/** Milliseconds that work on the event loop may take before others get a turn. */
const TURN_MS = 20;

/**
 * Runs the steps to the end, and lets the event loop serve others after each 20 ms. Work of a single turn is done
 * when the call returns, which is undefined then. Between turns an aborted signal ends the work: the promise rejects
 * with `tooLate`.
 */
export function inTurns(
  steps: Iterator<unknown>,
  clock: Clock,
  signal?: AbortSignal,
): Promise<void> | undefined {
  return turn(steps, clock) ? undefined : continued(steps, clock, signal);
}

async function continued(
  steps: Iterator<unknown>,
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<void> {
  do {
    await nextTurn();
    // The client has read that the request failed.
    if (signal?.aborted === true) throw tooLate();
  } while (!turn(steps, clock));
}

/** True if the steps have ended, false if the time is over. */
function turn(steps: Iterator<unknown>, clock: Clock): boolean {
  const end = clock.now() + TURN_MS;
  do {
    if (steps.next().done === true) return true;
  } while (clock.now() < end);
  return false;
}
