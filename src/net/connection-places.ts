import type { Socket } from 'node:net';
import type { ConnectionPart } from './connection-key.ts';
import { connectionKey } from './connection-key.ts';
import { DESCRIPTORS, type Descriptors } from './descriptors.ts';
import { clientNetwork } from './network.ts';

export type ConnectionBounds = {
  /** Connections of all clients. */
  readonly max: number;
  /** Connections of one network: an IPv4 address or an IPv6 /64. */
  readonly maxPerAddress: number;
  /** Whether many clients connect from this address, such as that of a proxy: it has no bound of its own. */
  readonly isShared?: (address: string) => boolean;
  /** They reach the process while those of clients have taken the file descriptors. */
  readonly isForOperators?: boolean;
};

/** A request in progress, in the place of its connection. */
export type Occupancy = {
  /**
   * From now on the connection may be closed for one of another network: `end` is called once, and the request has to end with a
   * refusal, and the connection with the request. The returned function withdraws the offer.
   */
  yields(end: () => void): () => void;
  leave(): void;
};

type Request = { end: (() => void) | undefined };

type Connection = {
  readonly key: string;
  readonly socket: Socket;
  readonly network: string;
  /** Those without a complete answer. */
  readonly requests: Set<Request>;
  /** Milliseconds: when the first of the requests began. */
  busySince: number;
  /** Bytes that the connection had brought then. */
  readBefore: number;
  /** It has sent a whole head. */
  isUsed: boolean;
};

/** Bytes that a request is taken to have brought when it begins, so that a silent one is slower the longer it lasts. */
const CREDIT_BYTES = 16_384;

/**
 * Connections beside the bound of all clients: those that gave way and still take their answer, and new ones that wait until one gives way.
 * Beyond them no answer is given, and a new one is closed.
 */
export const MAX_BESIDE = 64;

/**
 * The connections of a listener. At a bound a new connection replaces an idle one: of its own network, or at the bound
 * of all clients of the network with the most connections; first one that never sent a request, then the one that was
 * idle for the longest time.
 *
 * If none is idle there, each network has a share: the bound of all clients, divided by the number of networks, the new one's with them.
 * A new connection within the share of its network replaces one of a network above its share: an idle one, or the one whose requests all
 * still arrive, and do so most slowly. A request that arrived is never interrupted: if there are only such ones, the new connection is one
 * too many until one of them is answered. A new connection beyond the share of its network is closed.
 *
 * If the process is short of file descriptors, the new connection is closed, and an idle one with it, of another listener if this one has
 * none: the next attempt of the client finds a descriptor.
 */
export class ConnectionPlaces {
  #bounds: ConnectionBounds;
  readonly #connections = new Map<string, Connection>();
  /** The connections of each network, in the order of their last use. */
  readonly #networks = new Map<string, Set<Connection>>();
  readonly #descriptors: Descriptors;
  readonly #clock: { now(): number };
  readonly #leaving = new Set<Socket>();
  #isShrinking = false;
  /** While there are connections. */
  #withdraw: (() => void) | undefined;

  constructor(bounds: ConnectionBounds, clock: { now(): number }, descriptors = DESCRIPTORS) {
    this.#bounds = bounds;
    this.#clock = clock;
    this.#descriptors = descriptors;
  }

  /** For new connections. */
  limit(bounds: ConnectionBounds): void {
    this.#bounds = bounds;
  }

  /**
   * Gives the connection of this client a place, or destroys it and returns false. To be called before its TLS
   * handshake.
   */
  enter(socket: Socket, address: string): boolean {
    const network = clientNetwork(address);
    if (!this.#hasDescriptor(socket) || !this.#hasPlace(network, address)) {
      socket.destroy();
      return false;
    }
    const key = connectionKey(socket);
    const connection: Connection = {
      ...{ key, socket, network, requests: new Set<Request>() },
      ...{ busySince: 0, readBefore: 0, isUsed: false },
    };
    this.#connections.set(key, connection);
    // The idle connections of operators stay open for them.
    if (this.#bounds.isForOperators !== true) {
      this.#withdraw ??= this.#descriptors.offer(() => this.#evictFrom(this.#largestNetwork()));
    }
    this.#setOf(network).add(connection);
    socket.once('close', () => this.#remove(connection));
    return true;
  }

  /** A request begins on the connection. */
  occupy(part: ConnectionPart): Occupancy {
    const connection = this.#connections.get(connectionKey(part));
    if (connection === undefined) return NO_PLACE;
    const { requests, socket } = connection;
    if (requests.size === 0) {
      connection.busySince = this.#clock.now();
      connection.readBefore = socket.bytesRead;
    }
    const request: Request = { end: undefined };
    requests.add(request);
    connection.isUsed = true;
    return {
      yields(end) {
        request.end = end;
        return () => {
          if (request.end === end) request.end = undefined;
        };
      },
      leave: () => {
        requests.delete(request);
        const ofNetwork = this.#networks.get(connection.network);
        if (ofNetwork?.delete(connection)) ofNetwork.add(connection);
        this.#shrinkSoon();
      },
    };
  }

  /** The requests of the connection that have begun and not ended. */
  pendingOf(part: ConnectionPart): number {
    return this.#connections.get(connectionKey(part))?.requests.size ?? 0;
  }

  #hasPlace(network: string, address: string): boolean {
    const { max, maxPerAddress, isShared } = this.#bounds;
    const own = this.#networks.get(network);
    const isFull = own !== undefined && own.size >= maxPerAddress && isShared?.(address) !== true;
    if (isFull && !this.#evictFrom(own)) return false;
    return (
      this.#connections.size < max ||
      this.#evictFrom(this.#largestNetwork(own)) ||
      this.#replaceAboveShare(network) ||
      this.#hasPlaceBeside(network) ||
      (own !== undefined && this.#evictFrom(own))
    );
  }

  /** All places are taken: closes a connection of a network above its share, if the new one is within that of its network. */
  #replaceAboveShare(network: string): boolean {
    const above = this.#aboveShare(network);
    return above.some((each) => this.#evictFrom(each) || this.#interruptSlowest(each));
  }

  /** The requests of the networks above their share have arrived: the new connection is beside the bound until one of them is answered. */
  #hasPlaceBeside(network: string): boolean {
    const beside = this.#connections.size - this.#bounds.max + this.#leaving.size;
    return beside < MAX_BESIDE && this.#aboveShare(network).length > 0;
  }

  /** The networks that hold more than their share, the largest first; none if a further place is beyond the share of this network. */
  #aboveShare(network: string): readonly Set<Connection>[] {
    const held = this.#networks.get(network)?.size ?? 0;
    const networks = this.#networks.size + (held === 0 ? 1 : 0);
    const share = Math.max(1, Math.floor(this.#bounds.max / networks));
    if (held >= share) return [];
    const above = [...this.#networks.values()].filter(({ size }) => size > share);
    return above.sort((a, b) => b.size - a.size);
  }

  /** Behind the present turn, so that the answer which ends a request is sent. */
  #shrinkSoon(): void {
    if (this.#isShrinking || this.#connections.size <= this.#bounds.max) return;
    this.#isShrinking = true;
    setImmediate(() => {
      this.#isShrinking = false;
      const share = this.#bounds.max / this.#networks.size;
      const above = [...this.#networks.values()].filter(({ size }) => size > share);
      for (const each of above.sort((a, b) => b.size - a.size)) {
        while (
          this.#connections.size > this.#bounds.max &&
          each.size > share &&
          this.#evictFrom(each)
        );
      }
    });
  }

  #interruptSlowest(connections: Iterable<Connection>): boolean {
    const now = this.#clock.now();
    let slowest: Connection | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const connection of connections) {
      if (!isArriving(connection)) continue;
      const { socket, readBefore, busySince } = connection;
      const pace = (socket.bytesRead - readBefore + CREDIT_BYTES) / Math.max(1, now - busySince);
      if (slowest !== undefined && pace >= least) continue;
      slowest = connection;
      least = pace;
    }
    if (slowest === undefined) return false;
    this.#remove(slowest);
    this.#interrupt(slowest);
    return true;
  }

  #interrupt({ socket, requests }: Connection): void {
    const beside = Math.max(0, this.#connections.size - this.#bounds.max);
    if (this.#leaving.size + beside >= MAX_BESIDE) {
      socket.destroy();
      return;
    }
    this.#leaving.add(socket);
    socket.once('close', () => this.#leaving.delete(socket));
    for (const { end } of [...requests]) end?.();
  }

  /** A new connection never takes the place of an idle one here: each of them would keep one of the reserved descriptors. */
  #hasDescriptor(socket: Socket): boolean {
    if (!this.#descriptors.areShortFor(socket, this.#bounds.isForOperators === true)) return true;
    if (!this.#evictFrom(this.#largestNetwork())) this.#descriptors.closeIdle();
    return false;
  }

  #evictFrom(connections: Iterable<Connection>): boolean {
    let oldest: Connection | undefined;
    for (const connection of connections) {
      if (connection.requests.size > 0) continue;
      oldest ??= connection;
      if (connection.isUsed) continue;
      oldest = connection;
      break;
    }
    if (oldest === undefined) return false;
    this.#remove(oldest);
    oldest.socket.destroy();
    return true;
  }

  /** Of several, `preferred` if it is one of them. */
  #largestNetwork(preferred: Set<Connection> = new Set()): Iterable<Connection> {
    let largest = preferred;
    for (const each of this.#networks.values()) if (each.size > largest.size) largest = each;
    return largest;
  }

  #setOf(network: string): Set<Connection> {
    const known = this.#networks.get(network);
    if (known !== undefined) return known;
    const created = new Set<Connection>();
    this.#networks.set(network, created);
    return created;
  }

  #remove(connection: Connection): void {
    const { key } = connection;
    if (this.#connections.get(key) === connection) this.#connections.delete(key);
    if (this.#connections.size === 0) {
      this.#withdraw?.();
      this.#withdraw = undefined;
    }
    const ofNetwork = this.#networks.get(connection.network);
    ofNetwork?.delete(connection);
    if (ofNetwork?.size === 0) this.#networks.delete(connection.network);
  }
}

const NO_PLACE: Occupancy = { yields: () => () => {}, leave() {} };

/** The service has no whole request of it. */
function isArriving({ requests }: Connection): boolean {
  if (requests.size === 0) return false;
  for (const { end } of requests) if (end === undefined) return false;
  return true;
}
