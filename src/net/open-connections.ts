import type { Socket } from 'node:net';
import type { ConnectionPart } from './connection-key.ts';
import { connectionKey } from './connection-key.ts';

export type OpenConnection = {
  readonly key: string;
  readonly socket: Socket;
  readonly network: string;
  /** Those without a complete answer. */
  readonly requests: Set<OpenRequest>;
  /** Milliseconds: when the first of the requests began. */
  busySince: number;
  /** Bytes that the connection had brought then. */
  readBefore: number;
  /** It has sent a whole head. */
  isUsed: boolean;
};

export type OpenRequest = {
  /** Ends the request while its client still sends. */
  end: (() => void) | undefined;
};

/** The connections of one network, in the order of their last use. */
export type OfNetwork = ReadonlySet<OpenConnection>;

const NONE: OfNetwork = new Set();

/** The connections of a listener, by their addresses and by the networks of their clients. */
export class OpenConnections {
  readonly #byKey = new Map<string, OpenConnection>();
  readonly #byNetwork = new Map<string, Set<OpenConnection>>();

  get size(): number {
    return this.#byKey.size;
  }

  /** The number of networks with connections. */
  get networks(): number {
    return this.#byNetwork.size;
  }

  find(part: ConnectionPart): OpenConnection | undefined {
    return this.#byKey.get(connectionKey(part));
  }

  ofNetwork(network: string): OfNetwork {
    return this.#byNetwork.get(network) ?? NONE;
  }

  /** The network with the most connections; of several, `preferred` if it is one of them. */
  largestNetwork(preferred: OfNetwork = NONE): OfNetwork {
    let largest = preferred;
    for (const each of this.#byNetwork.values()) if (each.size > largest.size) largest = each;
    return largest;
  }

  /** The networks with more connections than this, the largest first. */
  networksAbove(share: number): readonly OfNetwork[] {
    const above = [...this.#byNetwork.values()].filter(({ size }) => size > share);
    return above.sort((a, b) => b.size - a.size);
  }

  add(socket: Socket, network: string): OpenConnection {
    const key = connectionKey(socket);
    const connection: OpenConnection = {
      ...{ key, socket, network, requests: new Set<OpenRequest>() },
      ...{ busySince: 0, readBefore: 0, isUsed: false },
    };
    this.#byKey.set(key, connection);
    const known = this.#byNetwork.get(network);
    if (known === undefined) this.#byNetwork.set(network, new Set([connection]));
    else known.add(connection);
    return connection;
  }

  /** The connection was used last of those of its network. */
  use(connection: OpenConnection): void {
    const ofNetwork = this.#byNetwork.get(connection.network);
    if (ofNetwork?.delete(connection)) ofNetwork.add(connection);
  }

  remove(connection: OpenConnection): void {
    const { key, network } = connection;
    if (this.#byKey.get(key) === connection) this.#byKey.delete(key);
    const ofNetwork = this.#byNetwork.get(network);
    ofNetwork?.delete(connection);
    if (ofNetwork?.size === 0) this.#byNetwork.delete(network);
  }
}

/** The first without a request that never sent one, else the one that is idle for the longest time. */
export function oldestIdle(connections: OfNetwork): OpenConnection | undefined {
  let oldest: OpenConnection | undefined;
  for (const connection of connections) {
    if (connection.requests.size > 0) continue;
    if (!connection.isUsed) return connection;
    oldest ??= connection;
  }
  return oldest;
}

/** Bytes that a request is taken to have brought when it begins, so that a silent one is slower the longer it lasts. */
const CREDIT_BYTES = 16_384;

/** The connection whose requests all still arrive, and do so most slowly. */
export function slowestArriving(connections: OfNetwork, now: number): OpenConnection | undefined {
  let slowest: OpenConnection | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const connection of connections) {
    if (!isArriving(connection)) continue;
    const { socket, readBefore, busySince } = connection;
    const pace = (socket.bytesRead - readBefore + CREDIT_BYTES) / Math.max(1, now - busySince);
    if (slowest !== undefined && pace >= least) continue;
    slowest = connection;
    least = pace;
  }
  return slowest;
}

/** The service has no whole request of it. */
function isArriving({ requests }: OpenConnection): boolean {
  if (requests.size === 0) return false;
  for (const { end } of requests) if (end === undefined) return false;
  return true;
}
