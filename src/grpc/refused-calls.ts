/** Refused calls in a row that a connection without a call in progress may begin. */
export const MAX_REFUSED = 10;
/** The same for a connection with calls in progress. */
export const MAX_REFUSED_BUSY = 1_000;

/**
 * Counts the calls of each connection that were refused for want of a place. Refusing a call costs as much as a small
 * one, so a connection that begins calls without end is cut, and one with calls in progress much later.
 */
export type RefusedCalls = {
  /** A call of this connection has a place, until the returned function is called. */
  begin(connection: object | undefined): () => void;
  /** Counts a refused call. True if the connection began too many. */
  isTooMany(connection: object | undefined): boolean;
};

export function refusedCalls(): RefusedCalls {
  const states = new WeakMap<object, { open: number; refused: number }>();

  function stateOf(connection: object): { open: number; refused: number } {
    const known = states.get(connection);
    if (known !== undefined) return known;
    const state = { open: 0, refused: 0 };
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
      state.refused++;
      return state.refused > (state.open > 0 ? MAX_REFUSED_BUSY : MAX_REFUSED);
    },
  };
}
