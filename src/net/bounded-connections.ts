import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ConnectionBounds } from './connection-places.ts';
import { ConnectionPlaces } from './connection-places.ts';
import type { ProxyGate } from './proxy-gate.ts';

/**
 * Bounds the connections of an HTTP server, so that silent connections never keep a request out.
 *
 * To be called after TLS was put before the server: it sees connections before their handshake. Puts the PROXY
 * protocol before the bounds, so that the clients of a proxy have bounds of their own.
 */
export function boundConnections(
  server: Server,
  bounds: ConnectionBounds,
  proxies: ProxyGate,
): void {
  const places = new ConnectionPlaces(bounds);
  server.prependListener('connection', (socket: Socket) => {
    places.enter(socket, proxies.clientOf(socket));
  });
  proxies.guard(server);
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    response.once('close', places.occupy(socket));
  });
}
