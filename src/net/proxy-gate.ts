import type { Server, Socket } from 'node:net';
import type { Clock, Logger } from '../component/component.ts';
import { trustedPeers } from './client-address.ts';
import { readProxyHeader } from './proxy-header.ts';

/** What the configuration of a listener says about proxies. */
export type ProxySettings = {
  /** CIDR blocks of the proxies that name the client. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Whether they begin each connection with a header of the PROXY protocol. */
  readonly proxyProtocol?: boolean | undefined;
};

/** A part of a connection that has the addresses of its peer: the socket, its TLS socket, or an HTTP/2 session's. */
type Peer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

/**
 * Reads the PROXY protocol in front of a listener, before TLS and before HTTP.
 *
 *   socket ─▶ header of a trusted peer ─▶ (bounds) ─▶ (TLS) ─▶ HTTP
 *
 * Only trusted peers have a header; the first byte of another peer is its request.
 */
export type ProxyGate = {
  use(settings: ProxySettings): void;
  /** The client of a connection: the one that the header names, or the peer. */
  clientOf(peer: Peer): string;
  /** Calls `serve` when the connection may be read. */
  accept(socket: Socket, serve: (socket: Socket) => void): void;
  /** Puts the gate before all listeners for connections that the server has. */
  guard(server: Server): void;
  /** Destroys the connections whose header has not arrived. */
  close(): void;
};

/** Longest time for a header. Milliseconds. */
const HEADER_MS = 2_000;
/** Connections of trusted peers that wait for their header; more are closed at once. */
const MAX_WAITING = 1_000;
/** A refused header is logged once in this time. Milliseconds. */
const LOG_INTERVAL_MS = 10_000;

type GateOptions = {
  readonly clock: Clock;
  readonly logger: Logger;
  /** The address of the listener, for logs. */
  readonly endpoint: string;
};

export function proxyGate({ clock, logger, endpoint }: GateOptions): ProxyGate {
  /** Clients of open connections, by their peer. */
  const clients = new Map<string, string>();
  const waiting = new Set<Socket>();
  let reads = (_peer: string): boolean => false;
  let loggedAt = Number.NEGATIVE_INFINITY;
  let suppressed = 0;

  function refuse(socket: Socket, reason: string): void {
    const now = clock.now();
    const address = socket.remoteAddress ?? '';
    socket.destroy();
    if (Math.abs(now - loggedAt) < LOG_INTERVAL_MS) {
      suppressed++;
      return;
    }
    logger.warn(
      { endpoint, address, reason, suppressed },
      'Connection closed: no valid header of the PROXY protocol',
    );
    loggedAt = now;
    suppressed = 0;
  }

  function read(socket: Socket, serve: (socket: Socket) => void): void {
    if (waiting.size >= MAX_WAITING) return refuse(socket, 'too many connections wait');
    waiting.add(socket);
    let received: Buffer = Buffer.alloc(0);
    const cancel = clock.after(HEADER_MS, () => {
      stop();
      refuse(socket, 'the header took too long');
    });
    const stop = (): void => {
      cancel();
      waiting.delete(socket);
      socket.off('readable', onReadable);
      socket.off('end', onEnd);
      socket.off('close', stop);
    };
    const onEnd = (): void => {
      stop();
      // A connection without a byte is the health check of a load balancer.
      if (received.length > 0) refuse(socket, 'the header is incomplete');
      else socket.destroy();
    };
    const onReadable = (): void => {
      for (let chunk: unknown = socket.read(); chunk instanceof Buffer; chunk = socket.read()) {
        received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      }
      const header = readProxyHeader(received);
      if (header.state === 'incomplete') return;
      stop();
      if (header.state === 'malformed') return refuse(socket, 'the header is missing or malformed');
      if (header.client !== undefined) remember(socket, header.client);
      const rest = received.subarray(header.length);
      if (rest.length > 0) socket.unshift(rest);
      serve(socket);
    };
    socket.on('error', () => {});
    socket.on('readable', onReadable);
    socket.on('end', onEnd);
    socket.on('close', stop);
  }

  function remember(socket: Socket, client: string): void {
    const key = keyOf(socket);
    clients.set(key, client);
    socket.once('close', () => clients.delete(key));
  }

  const gate: ProxyGate = {
    use({ trustedProxies = [], proxyProtocol = false }) {
      const isTrusted = trustedPeers(trustedProxies);
      reads = (peer) => proxyProtocol && isTrusted(peer);
    },
    clientOf: (peer) => clients.get(keyOf(peer)) ?? peer.remoteAddress ?? '',
    accept(socket, serve) {
      if (reads(socket.remoteAddress ?? '')) read(socket, serve);
      else serve(socket);
    },
    guard(server) {
      const listeners = server.listeners('connection') as ((this: Server, to: Socket) => void)[];
      server.removeAllListeners('connection');
      server.on('connection', (socket: Socket) => {
        gate.accept(socket, () => {
          for (const listener of listeners) listener.call(server, socket);
        });
      });
    },
    close() {
      for (const socket of waiting) socket.destroy();
    },
  };
  return gate;
}

/** A socket, its TLS socket and its HTTP/2 session have the same peer. */
function keyOf({ remoteAddress, remotePort }: Peer): string {
  return `${remoteAddress} ${remotePort}`;
}
