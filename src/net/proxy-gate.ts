import type { Server, Socket } from 'node:net';
import type { Clock, Logger } from '../component/component.ts';
import { lineSpacing } from '../component/line-spacing.ts';
import { trustedPeers } from './client-address.ts';
import type { ConnectionPart } from './connection-key.ts';
import { connectionKey } from './connection-key.ts';
import { readProxyHeader } from './proxy-header.ts';

/** The proxies in front of a listener. */
export type ProxySettings = {
  /** CIDR blocks of the proxies that name the client. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Whether they begin each connection with a header of the PROXY protocol. */
  readonly proxyProtocol?: boolean | undefined;
};

type GateOptions = {
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly logger: Pick<Logger, 'warn'>;
  /** The address of the listener, for logs. */
  readonly endpoint: string;
};

/** Longest time for a header. Milliseconds. */
const HEADER_MS = 2_000;
/** Connections of trusted peers that wait for their header; more are closed at once. */
export const MAX_WAITING = 1_000;
/** A refused header is logged once in this time. Milliseconds. */
const LOG_INTERVAL_MS = 10_000;

/**
 * Reads the PROXY protocol in front of a listener, before TLS and before HTTP.
 *
 *   socket ─▶ header of a trusted peer ─▶ ConnectionPlaces ─▶ (TLS) ─▶ HTTP
 *
 * Only trusted peers have a header; the first byte of another peer is the first one of its request.
 */
export class ProxyGate {
  readonly #options: GateOptions;
  /** Clients of open connections. */
  readonly #clients = new Map<string, string>();
  readonly #waiting = new Set<Socket>();
  #hasHeader = (_peer: string): boolean => false;
  readonly #spacing: () => number | undefined;

  constructor(options: GateOptions, settings: ProxySettings = {}) {
    this.#options = options;
    this.#spacing = lineSpacing(options.clock, LOG_INTERVAL_MS);
    this.use(settings);
  }

  /** For new connections. */
  use({ trustedProxies = [], proxyProtocol = false }: ProxySettings): void {
    this.#hasHeader = proxyProtocol ? trustedPeers(trustedProxies) : () => false;
  }

  /** The client that the header of a connection names, or the peer. */
  clientOf(part: ConnectionPart): string {
    return this.#clients.get(connectionKey(part)) ?? part.remoteAddress ?? '';
  }

  /** Calls `serve` when the header was read, or at once for a peer without one. */
  accept(socket: Socket, serve: () => void): void {
    if (!this.#hasHeader(socket.remoteAddress ?? '')) serve();
    else if (this.#waiting.size < MAX_WAITING) this.#read(socket, serve);
    else this.#refuse(socket, 'too many connections wait');
  }

  /** Puts the gate before all listeners that the server has for connections. */
  guard(server: Server): void {
    const listeners = server.listeners('connection') as ((this: Server, to: Socket) => void)[];
    server.removeAllListeners('connection');
    server.on('connection', (socket: Socket) => {
      this.accept(socket, () => {
        for (const listener of listeners) listener.call(server, socket);
      });
    });
  }

  /** Destroys the connections whose header has not arrived. */
  close(): void {
    for (const socket of this.#waiting) socket.destroy();
  }

  #read(socket: Socket, serve: () => void): void {
    this.#waiting.add(socket);
    let received: Buffer = Buffer.alloc(0);
    const stop = (): void => {
      cancel();
      this.#waiting.delete(socket);
      socket.off('readable', onReadable);
      socket.off('end', onEnd);
      socket.off('close', stop);
    };
    const refuse = (reason: string): void => {
      stop();
      this.#refuse(socket, reason);
    };
    const onReadable = (): void => {
      for (let chunk: unknown = socket.read(); chunk instanceof Buffer; chunk = socket.read()) {
        received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      }
      const header = readProxyHeader(received);
      if (header.state === 'malformed') refuse('the header is missing or malformed');
      if (header.state !== 'whole') return;
      stop();
      this.#remember(socket, header.client);
      const rest = received.subarray(header.length);
      if (rest.length > 0) socket.unshift(rest);
      serve();
    };
    const onEnd = (): void => {
      if (received.length > 0) refuse('the header is incomplete');
      // A connection without a byte is the health check of a load balancer.
      else socket.destroy();
    };
    const cancel = this.#options.clock.after(HEADER_MS, () => refuse('the header took too long'));
    socket.on('error', () => {});
    socket.on('readable', onReadable);
    socket.on('end', onEnd);
    socket.on('close', stop);
  }

  #remember(socket: Socket, client: string | undefined): void {
    if (client === undefined) return;
    const key = connectionKey(socket);
    this.#clients.set(key, client);
    socket.once('close', () => this.#clients.delete(key));
  }

  #refuse(socket: Socket, reason: string): void {
    const { logger, endpoint } = this.#options;
    const address = socket.remoteAddress ?? '';
    socket.destroy();
    const suppressed = this.#spacing();
    if (suppressed === undefined) return;
    const fields = { endpoint, address, reason, suppressed };
    logger.warn(fields, 'Connection has no valid header of the PROXY protocol');
  }
}
