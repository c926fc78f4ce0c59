/** Calls that begin in one turn of the event loop. */
export const CALLS_PER_TURN = 16;

/**
 * Begins calls in their order, a few in each turn of the event loop, so that hundreds that arrive in one read of a
 * connection do not keep every other request waiting until all of them have begun.
 */
export type CallTurns = {
  /** Begins the call at once if the turn has place, else in a later one. */
  take(begin: () => void): void;
};

export function callTurns(): CallTurns {
  const waiting: (() => void)[] = [];
  let left = CALLS_PER_TURN;
  let isArmed = false;

  function arm(): void {
    if (isArmed) return;
    isArmed = true;
    setImmediate(turn);
  }

  function turn(): void {
    isArmed = false;
    const begun = waiting.splice(0, CALLS_PER_TURN);
    left = CALLS_PER_TURN - begun.length;
    if (begun.length > 0) arm();
    for (const begin of begun) begin();
  }

  return {
    take(begin) {
      arm();
      if (left === 0 || waiting.length > 0) {
        waiting.push(begin);
        return;
      }
      left--;
      begin();
    },
  };
}
