import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../component/component.ts';
import type { ConnectionBounds } from './connection-places.ts';
import { ConnectionPlaces } from './connection-places.ts';
import { cutRequests } from './cut-requests.ts';
import { clientNetwork } from './network.ts';
import { offersUpgrade } from './offers-upgrade.ts';
import type { ProxyGate } from './proxy-gate.ts';
import { turnsOf } from './turns.ts';

/** Requests of one connection without a complete answer. A client that pipelines more is cut off; browsers and probes pipeline none. */
export const MAX_UNANSWERED = 8;
/** Requests that a listener begins in one turn of the event loop, whatever its clients send: one takes up to some milliseconds. */
const REQUESTS_PER_TURN = 1;

type RequestListener = (this: Server, request: IncomingMessage, response: ServerResponse) => void;

/**
 * Bounds the connections of an HTTP server and their requests, so that silent connections never keep a request out, and a flood of requests
 * does not hold up the other listeners of the process.
 *
 * To be called after TLS was put before the server, and after its request listeners: it sees connections before their handshake, and
 * requests before those listeners. Puts the PROXY protocol before the bounds, so that the clients of a proxy have bounds of their own.
 */
export function boundConnections(
  server: Server,
  bounds: ConnectionBounds,
  proxies: ProxyGate,
  clock: Pick<Clock, 'now'>,
): void {
  const places = new ConnectionPlaces(bounds, clock);
  server.prependListener('connection', (socket: Socket) => {
    places.enter(socket, proxies.clientOf(socket));
  });
  proxies.guard(server);
  const listeners = server.listeners('request') as RequestListener[];
  const turns = turnsOf(REQUESTS_PER_TURN);
  server.removeAllListeners('request');
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    // Its client may leave the body out.
    response.shouldKeepAlive = false;
    response.writeHead(417).end();
  });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request;
    if (places.pendingOf(socket) >= MAX_UNANSWERED) cutRequests(socket);
    if (socket.destroyed) return;
    if (offersUpgrade(request)) response.shouldKeepAlive = false;
    response.once('close', places.occupy(socket).leave);
    const serve = (): void => {
      for (const listener of listeners) listener.call(server, request, response);
    };
    const lane = turns.laneOf(socket, () => clientNetwork(proxies.clientOf(socket)));
    lane.take(() => (socket.destroyed ? false : serve()));
  });
}
