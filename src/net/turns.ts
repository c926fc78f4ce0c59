/**
 * Begins work in its order, a few pieces in each turn of the event loop, so that hundreds of requests that arrive in one read
 * of a connection do not keep every other request waiting until all of them have begun.
 */
type WorkTurns = {
  /**
   * Begins the work at once if the turn has place, else in a later one. `begin` returns false if nothing was left to do: it then takes no
   * place.
   */
  take(begin: Begin): void;
};

type Begin = () => unknown;

export function turnsOf(perTurn: number): WorkTurns {
  let waiting: Begin[] = [];
  let left = perTurn;
  let isArmed = false;

  function arm(): void {
    if (isArmed) return;
    isArmed = true;
    setImmediate(turn);
  }

  function turn(): void {
    isArmed = false;
    left = perTurn;
    if (waiting.length === 0) return;
    arm();
    let next = 0;
    while (left > 0 && next < waiting.length) {
      const begin = waiting[next++];
      if (begin?.() !== false) left--;
    }
    // Work that is taken in the loop above joins the end.
    waiting = waiting.slice(next);
  }

  return {
    take(begin) {
      arm();
      if (left === 0 || waiting.length > 0) {
        waiting.push(begin);
        return;
      }
      if (begin() !== false) left--;
    },
  };
}
