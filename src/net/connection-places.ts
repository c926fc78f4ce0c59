import type { Socket } from 'node:net';
import type { Clock } from '../component/component.ts';
import { trustedPeers } from './client-address.ts';
import type { ConnectionPart } from './connection-key.ts';
import { DESCRIPTORS, type Descriptors } from './descriptors.ts';
import { clientNetwork } from './network.ts';
import type { OfNetwork, OpenConnection, OpenRequest } from './open-connections.ts';
import { OpenConnections, oldestIdle, slowestArriving } from './open-connections.ts';
import type { ProxySettings } from './proxy-gate.ts';

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

/** The bounds of the connections of clients. The addresses of trusted proxies are shared by many. */
export function connectionBounds({
  maxConnections,
  maxConnectionsPerAddress,
  trustedProxies = [],
}: ConnectionLimits): ConnectionBounds {
  const isShared = trustedPeers(trustedProxies);
  return { max: maxConnections, maxPerAddress: maxConnectionsPerAddress, isShared };
}

type ConnectionLimits = Pick<ProxySettings, 'trustedProxies'> & {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
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

/**
 * Connections beside the bound of all clients: those that gave way and still take their answer, and new ones that wait until one gives way.
 * Beyond them no answer is given, and a new one is closed.
 */
export const MAX_BESIDE = 64;

/**
 * The connections of a listener, and which of them makes place for a new one. A request that has arrived is never interrupted.
 *
 *   at                              in this order                                          else the new one
 *   few descriptors of the process  an idle one, of another listener if there is none      is closed anyway: the client's next attempt
 *                                                                                          finds a descriptor
 *   the bound of its network        an idle one of the network                             is closed
 *   the bound of all clients        an idle one of the largest network;                    is closed
 *                                   if the new one is within the share of its network,
 *                                   of one above its share: an idle one, the slowest
 *                                   whose requests still arrive, or the first that is
 *                                   answered (until then, one too many is open);
 *                                   an idle one of its own network
 *
 * The share of a network is the bound of all clients, divided by the number of networks, with that of the new one. An idle one is one that
 * never sent a request, else the one that was idle for the longest time.
 */
export class ConnectionPlaces {
  #bounds: ConnectionBounds;
  readonly #open = new OpenConnections();
  readonly #descriptors: Descriptors;
  readonly #clock: Pick<Clock, 'now'>;
  /** Those that gave way and still take their answer. */
  readonly #leaving = new Set<Socket>();
  #isShrinking = false;
  /** Withdraws the offer of idle connections for their descriptors; set while there are connections. */
  #withdraw: (() => void) | undefined;

  constructor(bounds: ConnectionBounds, clock: Pick<Clock, 'now'>, descriptors = DESCRIPTORS) {
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
    if (this.#isShortOfDescriptors(socket) || !this.#makePlace(network, address)) {
      socket.destroy();
      return false;
    }
    const connection = this.#open.add(socket, network);
    // The idle connections of operators stay open for them.
    if (this.#bounds.isForOperators !== true) {
      this.#withdraw ??= this.#descriptors.offer(() =>
        this.#evictIdle(this.#open.largestNetwork()),
      );
    }
    socket.once('close', () => this.#remove(connection));
    return true;
  }

  /** A request begins on the connection. */
  occupy(part: ConnectionPart): Occupancy {
    const connection = this.#open.find(part);
    if (connection === undefined) return NO_PLACE;
    const { requests, socket } = connection;
    if (requests.size === 0) {
      connection.busySince = this.#clock.now();
      connection.readBefore = socket.bytesRead;
    }
    const request: OpenRequest = { end: undefined };
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
        this.#open.use(connection);
        this.#shrinkSoon();
      },
    };
  }

  /** The requests of the connection that have begun and not ended. */
  pendingOf(part: ConnectionPart): number {
    return this.#open.find(part)?.requests.size ?? 0;
  }

  /** A new connection never takes the place of an idle one here: each of them would keep one of the reserved descriptors. */
  #isShortOfDescriptors(socket: Socket): boolean {
    const isForOperators = this.#bounds.isForOperators === true;
    if (!this.#descriptors.areShortFor(socket, isForOperators)) return false;
    if (!this.#evictIdle(this.#open.largestNetwork())) this.#descriptors.closeIdle();
    return true;
  }

  /** False if the new connection has no place. */
  #makePlace(network: string, address: string): boolean {
    const { max, maxPerAddress, isShared } = this.#bounds;
    const own = this.#open.ofNetwork(network);
    if (own.size >= maxPerAddress && isShared?.(address) !== true && !this.#evictIdle(own)) {
      return false;
    }
    return (
      this.#open.size < max ||
      this.#evictIdle(this.#open.largestNetwork(own)) ||
      this.#takeFromAboveShare(own) ||
      this.#evictIdle(own)
    );
  }

  /** If the new connection is within the share of its network: replaces one of a network above its share, or is one too many for a while. */
  #takeFromAboveShare(own: OfNetwork): boolean {
    const networks = this.#open.networks + (own.size === 0 ? 1 : 0);
    const share = Math.max(1, Math.floor(this.#bounds.max / networks));
    if (own.size >= share) return false;
    const above = this.#open.networksAbove(share);
    if (above.some((each) => this.#evictIdle(each) || this.#interruptSlowest(each))) return true;
    // The requests of the networks above their share have arrived.
    return above.length > 0 && this.#beside + this.#leaving.size < MAX_BESIDE;
  }

  /** Connections above the bound of all clients. */
  get #beside(): number {
    return Math.max(0, this.#open.size - this.#bounds.max);
  }

  #evictIdle(connections: OfNetwork): boolean {
    const idle = oldestIdle(connections);
    if (idle === undefined) return false;
    this.#remove(idle);
    idle.socket.destroy();
    return true;
  }

  #interruptSlowest(connections: OfNetwork): boolean {
    const slowest = slowestArriving(connections, this.#clock.now());
    if (slowest === undefined) return false;
    this.#remove(slowest);
    this.#interrupt(slowest);
    return true;
  }

  #interrupt({ socket, requests }: OpenConnection): void {
    if (this.#beside + this.#leaving.size >= MAX_BESIDE) {
      socket.destroy();
      return;
    }
    this.#leaving.add(socket);
    socket.once('close', () => this.#leaving.delete(socket));
    for (const { end } of [...requests]) end?.();
  }

  /** Behind the present turn, so that the answer which ends a request is sent. */
  #shrinkSoon(): void {
    if (this.#isShrinking || this.#beside === 0) return;
    this.#isShrinking = true;
    setImmediate(() => {
      this.#isShrinking = false;
      this.#shrink();
    });
  }

  #shrink(): void {
    const share = this.#bounds.max / this.#open.networks;
    for (const each of this.#open.networksAbove(share)) {
      while (this.#beside > 0 && each.size > share && this.#evictIdle(each));
    }
  }

  #remove(connection: OpenConnection): void {
    this.#open.remove(connection);
    if (this.#open.size > 0) return;
    this.#withdraw?.();
    this.#withdraw = undefined;
  }
}

const NO_PLACE: Occupancy = { yields: () => () => {}, leave() {} };
