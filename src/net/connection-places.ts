import type { Socket } from 'node:net';
import type { Clock } from '../component/component.ts';
import { trustedPeers } from './client-address.ts';
import type { ConnectionPart } from './connection-key.ts';
import { DESCRIPTORS, type DescriptorGiver, type Descriptors } from './descriptors.ts';
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

/** A listener that closed a connection for want of descriptors takes no more than it was left with for this time. Milliseconds. */
const SHORT_MS = 10_000;

/**
 * The connections of a listener, and which of them makes place for a new one. A request that has arrived is never interrupted.
 *
 *   at                              in this order                                          else the new one
 *   few descriptors of the process  of the listener with the most connections: an idle     is closed anyway: the client's next attempt
 *                                   one, or one of a network above its share               finds a descriptor
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
 *
 * A listener that closed a connection for want of descriptors has no more places for a while than it was left with. Else a client above
 * its share takes the descriptor before the next attempt of the other one.
 */
export class ConnectionPlaces {
  #bounds: ConnectionBounds;
  readonly #open = new OpenConnections();
  readonly #descriptors: Descriptors;
  readonly #clock: Pick<Clock, 'now'>;
  /** Those that gave way and still take their answer. */
  readonly #leaving = new Set<Socket>();
  #isShrinking = false;
  /** The places for which there were descriptors when they were short. */
  #short = { max: Number.POSITIVE_INFINITY, at: 0 };
  readonly #giver: DescriptorGiver;
  /** Withdraws the offer of connections for their descriptors; set while there are connections. */
  #withdraw: (() => void) | undefined;

  constructor(bounds: ConnectionBounds, clock: Pick<Clock, 'now'>, descriptors = DESCRIPTORS) {
    this.#bounds = bounds;
    this.#clock = clock;
    this.#descriptors = descriptors;
    const open = this.#open;
    this.#giver = {
      get connections() {
        return open.size;
      },
      giveWay: (network) => this.#giveWay(network),
    };
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
    if (this.#isShortOfDescriptors(socket, network) || !this.#makePlace(network, address)) {
      socket.destroy();
      return false;
    }
    const connection = this.#open.add(socket, network);
    // The idle connections of operators stay open for them.
    if (this.#bounds.isForOperators !== true) {
      this.#withdraw ??= this.#descriptors.offer(this.#giver);
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

  /** A new connection never takes the place of another one here: each of them would keep one of the reserved descriptors. */
  #isShortOfDescriptors(socket: Socket, network: string): boolean {
    const isForOperators = this.#bounds.isForOperators === true;
    if (!this.#descriptors.areShortFor(socket, isForOperators)) return false;
    const hasClosed = isForOperators && this.#evictIdle(this.#open.largestNetwork());
    if (!hasClosed) this.#descriptors.makeRoom(network);
    return true;
  }

  /** Closes a connection for want of descriptors. Its place is left to other clients, and so is its descriptor. */
  #giveWay(network: string): boolean {
    const { size } = this.#open;
    const former = this.#short;
    const own = this.#open.ofNetwork(network);
    const largest = this.#open.largestNetwork();
    this.#short = { max: size, at: this.#clock.now() };
    const gives = this.#evictIdle(largest) || this.#replaceAboveShare(own);
    if (!gives) this.#short = former;
    else if (largest !== own) this.#short.max = Math.max(1, size - 1);
    return gives;
  }

  /** False if the new connection has no place. */
  #makePlace(network: string, address: string): boolean {
    const { maxPerAddress, isShared } = this.#bounds;
    const own = this.#open.ofNetwork(network);
    if (own.size >= maxPerAddress && isShared?.(address) !== true && !this.#evictIdle(own)) {
      return false;
    }
    return (
      this.#open.size < this.#max ||
      this.#evictIdle(this.#open.largestNetwork(own)) ||
      this.#replaceAboveShare(own) ||
      this.#mayBeBeside(own) ||
      this.#evictIdle(own)
    );
  }

  /** Closes a connection of a network above its share, if the new one is within that of its network. */
  #replaceAboveShare(own: OfNetwork): boolean {
    return this.#aboveShare(own).some(
      (each) => this.#evictIdle(each) || this.#interruptSlowest(each),
    );
  }

  /** The requests of the networks above their share have arrived: the new connection is one too many until one of them is answered. */
  #mayBeBeside(own: OfNetwork): boolean {
    return this.#beside + this.#leaving.size < MAX_BESIDE && this.#aboveShare(own).length > 0;
  }

  /** None if a further connection is beyond the share of its network. */
  #aboveShare(own: OfNetwork): readonly OfNetwork[] {
    const networks = this.#open.networks + (own.size === 0 ? 1 : 0);
    const share = Math.max(1, Math.floor(this.#max / networks));
    return own.size >= share ? [] : this.#open.networksAbove(share);
  }

  /** The bound of all clients, or the smaller number of places for which there are descriptors. */
  get #max(): number {
    const { max, at } = this.#short;
    if (max === Number.POSITIVE_INFINITY) return this.#bounds.max;
    // A clock that is set back ends it.
    const isShort = Math.abs(this.#clock.now() - at) < SHORT_MS;
    return isShort ? Math.min(max, this.#bounds.max) : this.#bounds.max;
  }

  /** Connections above that number. */
  get #beside(): number {
    return Math.max(0, this.#open.size - this.#max);
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
    // A connection that takes its answer keeps the descriptor that is wanted.
    const isShort = this.#max < this.#bounds.max;
    if (isShort || this.#beside + this.#leaving.size >= MAX_BESIDE) {
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
    const share = this.#max / this.#open.networks;
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
