import type { Clock } from '../component/component.ts';

/** Refused calls in a row that a connection without a call in progress may begin within a second. */
export const MAX_REFUSED = 10;
/** The same for a connection with calls in progress. */
export const MAX_REFUSED_BUSY = 1_000;
/** Milliseconds in which they are counted: a client that is refused now and then, as one that exports to a method that is not served, stays. */
export const REFUSED_WINDOW_MS = 1_000;

/**
 * Counts the calls of each connection that were refused before their handler: for want of a place, or because no method is meant. Refusing
 * a call costs as much as a small one, so a connection that begins calls without end is cut, and one with calls in progress much later.
 */
export type RefusedCalls = {
  /** A call of this connection has a place and a method, until the returned function is called. */
  begin(connection: object | undefined): () => void;
  /** Counts a refused call. True if the connection began too many. */
  isTooMany(connection: object | undefined): boolean;
};

type State = { open: number; refused: number; since: number };

export function refusedCalls(clock: Clock): RefusedCalls {
  const states = new WeakMap<object, State>();

  function stateOf(connection: object): State {
    const known = states.get(connection);
    if (known !== undefined) return known;
    const state = { open: 0, refused: 0, since: 0 };
    states.set(connection, state);
    return state;
  }

  return {
    begin(connection) {
      if (connection === undefined) return () => {};
      const state = stateOf(connection);
      state.open++;
      state.refused = 0;
      return () => {
        state.open--;
      };
    },
    isTooMany(connection) {
      if (connection === undefined) return false;
      const state = stateOf(connection);
      const now = clock.uptime();
      if (state.refused === 0 || now - state.since >= REFUSED_WINDOW_MS) {
        state.refused = 0;
        state.since = now;
      }
      state.refused++;
      return state.refused > (state.open > 0 ? MAX_REFUSED_BUSY : MAX_REFUSED);
    },
  };
}
