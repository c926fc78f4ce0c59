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

type Connection = {
  readonly key: string;
  readonly socket: Socket;
  readonly network: string;
  /** Requests without a complete answer. */
  pending: number;
  /** It has sent a whole head. */
  isUsed: boolean;
};

/**
 * The connections of a listener. At a bound a new connection replaces an idle one: of its own network, or at the bound
 * of all clients of the network with the most connections; first one that never sent a request, then the one that was
 * idle for the longest time. If all are busy, the new connection is closed.
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
  /** While there are connections. */
  #withdraw: (() => void) | undefined;

  constructor(bounds: ConnectionBounds, descriptors = DESCRIPTORS) {
    this.#bounds = bounds;
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
    const connection: Connection = { key, socket, network, pending: 0, isUsed: false };
    this.#connections.set(key, connection);
    // The idle connections of operators stay open for them.
    if (this.#bounds.isForOperators !== true) {
      this.#withdraw ??= this.#descriptors.offer(() => this.#evictFrom(this.#largestNetwork()));
    }
    this.#setOf(network).add(connection);
    socket.once('close', () => this.#remove(connection));
    return true;
  }

  /** A request begins on the connection; the returned function ends it. */
  occupy(part: ConnectionPart): () => void {
    const connection = this.#connections.get(connectionKey(part));
    if (connection === undefined) return () => {};
    connection.pending++;
    connection.isUsed = true;
    return () => {
      connection.pending--;
      const ofNetwork = this.#networks.get(connection.network);
      if (ofNetwork?.delete(connection)) ofNetwork.add(connection);
    };
  }

  /** The requests of the connection that have begun and not ended. */
  pendingOf(part: ConnectionPart): number {
    return this.#connections.get(connectionKey(part))?.pending ?? 0;
  }

  #hasPlace(network: string, address: string): boolean {
    const { max, maxPerAddress, isShared } = this.#bounds;
    const own = this.#networks.get(network);
    const isFull = own !== undefined && own.size >= maxPerAddress && isShared?.(address) !== true;
    if (isFull && !this.#evictFrom(own)) return false;
    return this.#connections.size < max || this.#evictFrom(this.#largestNetwork());
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
      if (connection.pending > 0) continue;
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

  #largestNetwork(): Iterable<Connection> {
    let largest = new Set<Connection>();
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
