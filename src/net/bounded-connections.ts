import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { clientNetwork } from './network.ts';
import type { ProxyGate } from './proxy-gate.ts';

export type ConnectionBounds = {
  /** Connections of all clients. */
  readonly max: number;
  /** Connections of one network: an IPv4 address or an IPv6 /64. */
  readonly maxPerAddress: number;
};

type Connection = {
  readonly socket: Socket;
  readonly network: string;
  /** Requests without a complete answer. */
  pending: number;
  /** It has sent a whole head. */
  isUsed: boolean;
};

/**
 * Bounds the connections of a management listener. At a bound the new connection replaces the oldest idle one, first
 * one that never sent a request: of its own network, or at the bound of all clients of the network with the most
 * connections. So silent connections never keep a probe out. If all are busy, the new connection is closed.
 *
 * To be called after TLS was put before the server: it sees connections before their handshake. Puts the PROXY
 * protocol before the bounds, so that the clients of a proxy have bounds of their own.
 */
export function boundConnections(
  server: Server,
  { max, maxPerAddress }: ConnectionBounds,
  proxies: ProxyGate,
): void {
  /** In the order of their arrival. A TLS socket and its raw socket have the same key. */
  const connections = new Map<string, Connection>();

  server.prependListener('connection', (socket: Socket) => {
    const network = clientNetwork(proxies.clientOf(socket));
    const ofNetwork = [...connections.values()].filter((each) => each.network === network);
    const hasPlace =
      (ofNetwork.length < maxPerAddress || evictOldest(ofNetwork)) &&
      (connections.size < max || evictOldest(largestNetwork(connections)));
    if (!hasPlace) {
      socket.destroy();
      return;
    }
    const key = keyOf(socket);
    connections.set(key, { socket, network, pending: 0, isUsed: false });
    socket.once('close', () => connections.delete(key));
  });
  proxies.guard(server);
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const connection = connections.get(keyOf(socket));
    if (connection === undefined) return;
    connection.pending++;
    connection.isUsed = true;
    response.once('close', () => connection.pending--);
  });

  function evictOldest(candidates: readonly Connection[]): boolean {
    const idle = candidates.filter(({ pending }) => pending === 0);
    const oldest = idle.find(({ isUsed }) => !isUsed) ?? idle[0];
    if (oldest === undefined) return false;
    connections.delete(keyOf(oldest.socket));
    oldest.socket.destroy();
    return true;
  }
}

function largestNetwork(connections: ReadonlyMap<string, Connection>): readonly Connection[] {
  const byNetwork = Map.groupBy(connections.values(), ({ network }) => network);
  return [...byNetwork.values()].reduce((a, b) => (b.length > a.length ? b : a), []);
}

function keyOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
