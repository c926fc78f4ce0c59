/**
 * Begins a few pieces of work in each turn of the event loop, so that hundreds of requests that arrive in one read of a connection do not
 * keep every other request waiting until all of them have begun. Networks that wait get places in rotation, and so do the connections of a
 * network: a client with many requests or many connections delays the request of another client by a place, and its own by the rest.
 *
 *   turn of the event loop ─▶ next network ─▶ its next connection ─▶ the first piece of that
 */
export type WorkTurns = {
  /** The work of this connection. `networkOf` names the network of its client, and is called once for each connection. */
  laneOf(connection: object, networkOf: () => string): Lane;
};

/** The pieces of one connection begin in their order. */
export type Lane = {
  /**
   * Begins the work at once if the turn has place and no work waits, else in a later turn. `begin` returns false if nothing was left to do:
   * it then takes no place.
   */
  take(begin: Begin): void;
};

type Begin = () => unknown;

export function turnsOf(perTurn: number): WorkTurns {
  const rotation = new Rotation();
  const lanes = new WeakMap<object, Lane>();
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
    if (rotation.size === 0) return;
    arm();
    while (left > 0) {
      const begin = rotation.next();
      if (begin === undefined) return;
      run(begin);
    }
  }

  function run(begin: Begin): void {
    // Before it begins: it may take further work.
    left--;
    if (begin() === false) left++;
  }

  function create(network: string): Lane {
    const waiting: Begin[] = [];
    return {
      take(begin) {
        arm();
        if (left === 0 || rotation.size > 0) rotation.add(network, waiting, begin);
        else run(begin);
      },
    };
  }

  return {
    laneOf(connection, networkOf) {
      const known = lanes.get(connection);
      if (known !== undefined) return known;
      const lane = create(networkOf());
      lanes.set(connection, lane);
      return lane;
    },
  };
}

/** The pieces that wait. All operations take constant time. */
class Rotation {
  /** The lanes with waiting pieces, by network. Networks and lanes are in the order in which they get a place. */
  readonly #networks = new Map<string, Set<Begin[]>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(network: string, lane: Begin[], begin: Begin): void {
    lane.push(begin);
    this.#size++;
    const lanes = this.#networks.get(network);
    if (lanes === undefined) this.#networks.set(network, new Set([lane]));
    else lanes.add(lane);
  }

  /** The first piece of the first lane of the first network. Lane and network go to the end. */
  next(): Begin | undefined {
    for (const [network, lanes] of this.#networks) {
      for (const lane of lanes) {
        const begin = lane.shift();
        lanes.delete(lane);
        if (lane.length > 0) lanes.add(lane);
        this.#networks.delete(network);
        if (lanes.size > 0) this.#networks.set(network, lanes);
        this.#size--;
        return begin;
      }
    }
    return undefined;
  }
}
