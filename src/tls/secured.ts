import type { Server as HttpServer } from 'node:http';
import type { Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { connectionKey } from '../net/connection-key.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import type { TlsParts } from './serving.ts';
import { openTls } from './serving.ts';

/** As the time-out of heads on the management listeners. */
const HANDSHAKE_MS = 2_000;

/** The handshake in front of an HTTP server. */
export type TlsGate = {
  /** Secures new connections with this server, or lets them through in plain text if it is undefined. */
  use(tls: TlsServer | undefined): void;
  /** Destroys the connections whose handshake has not finished. */
  close(): void;
};

/**
 * Puts the TLS handshake between an HTTP server and its new connections. `onConnection` gets each connection
 * that may carry requests: after its handshake, or at once without TLS.
 */
export function tlsGateOf(server: HttpServer, onConnection: (socket: Socket) => void): TlsGate {
  const listeners = server.listeners('connection') as ((
    this: HttpServer,
    socket: Socket,
  ) => void)[];
  /** Connections whose handshake has not finished. */
  const handshaking = new Map<string, Socket>();
  let tls: TlsServer | undefined;

  function serve(socket: Socket): void {
    onConnection(socket);
    for (const listener of listeners) listener.call(server, socket);
  }

  function secured(socket: Socket): void {
    handshaking.delete(connectionKey(socket));
    serve(socket);
  }

  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (tls === undefined) return serve(socket);
    const key = connectionKey(socket);
    handshaking.set(key, socket);
    socket.on('error', () => {});
    socket.once('close', () => {
      if (handshaking.get(key) === socket) handshaking.delete(key);
    });
    tls.emit('connection', socket);
  });
  return {
    use(next) {
      // The former server finishes the handshakes that it began.
      tls = next;
      tls?.off('secureConnection', secured).on('secureConnection', secured);
    },
    close() {
      for (const socket of handshaking.values()) socket.destroy();
    },
  };
}

/** Secures an HTTP server that belongs to one component; the returned function takes TLS away again. */
export async function secureHttp(
  server: HttpServer,
  config: ServerTls | undefined,
  parts: Omit<TlsParts, 'protocols' | 'handshakeTimeout'>,
): Promise<() => void> {
  if (config === undefined) return () => {};
  const protocols = ['http/1.1'] as const;
  const tls = await openTls(config, { ...parts, handshakeTimeout: HANDSHAKE_MS, protocols });
  const gate = tlsGateOf(server, () => {});
  gate.use(tls.server);
  return () => {
    tls.close();
    gate.close();
  };
}
