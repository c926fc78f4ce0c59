import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ConnectionBounds } from './connection-places.ts';
import { ConnectionPlaces } from './connection-places.ts';

/**
 * Bounds the connections of an HTTP server, so that silent connections never keep a request out.
 *
 * To be called after TLS was put before the server: it sees connections before their handshake.
 */
export function boundConnections(server: Server, bounds: ConnectionBounds): void {
  const places = new ConnectionPlaces(bounds);
  server.prependListener('connection', (socket: Socket) => {
    places.enter(socket);
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    response.once('close', places.occupy(socket));
  });
}
