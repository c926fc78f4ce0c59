import type { Server as HttpServer } from 'node:http';
import type { Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import type { ServerTls } from '../schema/server-tls.ts';
import type { TlsParts } from './serving.ts';
import { openTls } from './serving.ts';

const HANDSHAKE_MS = 10_000;

/** Where an HTTP server takes its connections from. */
export type Entrance = {
  /** From now on connections are secured by it, or plain where it is undefined. */
  through(tls: TlsServer | undefined): void;
  /** Ends connections whose handshake is under way. */
  close(): void;
};

/**
 * Puts a door in front of an HTTP server that listens: what connects goes through the handshake first, and is
 * told to `enter` when it is a connection that requests come over.
 */
export function entranceOf(server: HttpServer, enter: (socket: Socket) => void): Entrance {
  const serve = server.listeners('connection') as ((this: HttpServer, socket: Socket) => void)[];
  /** Connections in their handshake, by the client's address. */
  const shaking = new Map<string, Socket>();
  let tls: TlsServer | undefined;

  function serveOne(socket: Socket): void {
    enter(socket);
    for (const each of serve) each.call(server, socket);
  }

  function secured(socket: Socket): void {
    shaking.delete(clientOf(socket));
    serveOne(socket);
  }

  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (tls === undefined) return serveOne(socket);
    const client = clientOf(socket);
    shaking.set(client, socket);
    socket.on('error', () => {});
    socket.once('close', () => {
      if (shaking.get(client) === socket) shaking.delete(client);
    });
    tls.emit('connection', socket);
  });
  return {
    through(next) {
      tls?.off('secureConnection', secured);
      tls = next;
      tls?.on('secureConnection', secured);
    },
    close() {
      for (const socket of shaking.values()) socket.destroy();
    },
  };
}

/** Secures an HTTP server that one component has to itself; the returned function ends that. */
export async function secureHttp(
  server: HttpServer,
  config: ServerTls | undefined,
  parts: Omit<TlsParts, 'protocols' | 'handshakeTimeout'>,
): Promise<() => void> {
  if (config === undefined) return () => {};
  const protocols = ['http/1.1'] as const;
  const tls = await openTls(config, { ...parts, handshakeTimeout: HANDSHAKE_MS, protocols });
  const entrance = entranceOf(server, () => {});
  entrance.through(tls.server);
  return () => {
    tls.close();
    entrance.close();
  };
}

function clientOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
