import type { AddressInfo, Server, Socket } from 'node:net';
import { createServer, isIP } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { capability } from '../component/capability.ts';
import type { Clock, Logger, Metrics } from '../component/component.ts';
import { addressOf, cannotListen, listenOn } from '../net/address.ts';
import { ConnectionPlaces, connectionBounds } from '../net/connection-places.ts';
import { ProxyGate } from '../net/proxy-gate.ts';
import { parseEndpoint } from '../schema/fields.ts';
import type { GrpcMethod } from './call.ts';
import type { GrpcLimits } from './config.ts';
import type { GrpcServer } from './server.ts';

/**
 * The gRPC listeners of the service. A port belongs to one receiver of a graph, and stays bound over a reload: the
 * next graph's receiver serves new connections, while the former one asks its connections to close and finishes
 * their calls.
 *
 *   port ─▶ newest open hold ─▶ (TLS) ─▶ its gRPC server
 */
export type GrpcListeners = {
  /** A receiver's hold on the port at `endpoint`. Rejects if another receiver of the graph has the port. */
  bind(endpoint: string, settings: GrpcSettings): Promise<GrpcListener>;
  /** For the next graph on a reload. */
  nextGraph(): GrpcListeners;
  /** The addresses and methods that are served now, for the banner at the start. */
  served(): { readonly url: string; readonly routes: readonly string[] }[];
  /** Every `GrpcListener` is closed before. */
  close(): void;
};

/** Offered by the service to receivers. */
export const GRPC_LISTENERS = capability<GrpcListeners>('grpc_listeners');

type GrpcSettings = {
  readonly limits: GrpcLimits;
  readonly methods: readonly GrpcMethod[];
  /**
   * Terminates TLS in front of the server. It does not listen, and negotiates `h2`; the caller replaces its
   * certificates.
   */
  readonly tls?: TlsServer;
};

export type GrpcListener = {
  /** Begins to serve. Rejects with a clear sentence if the address cannot be bound. */
  open(): Promise<void>;
  /** Accepts no more calls. Resolves when the calls in progress are answered; at the deadline they are cut. */
  close(deadline: AbortSignal): Promise<void>;
  /** `http://127.0.0.1:4317`, with the real port; undefined while not listening. */
  url(): string | undefined;
};

type Hold = {
  readonly graph: number;
  readonly settings: GrpcSettings;
  readonly sockets: Set<Socket>;
  readonly places: ConnectionPlaces;
  readonly proxies: ProxyGate;
  /** Set while it accepts connections. */
  server: GrpcServer | undefined;
  isClosed: boolean;
};

type Port = {
  readonly endpoint: string;
  readonly address: string;
  readonly number: number;
  readonly listener: Server;
  readonly holds: Hold[];
  listening: Promise<void> | undefined;
};

type Options = {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** Other processes of this daemon listen on the same ports. */
  readonly sharesPorts?: boolean;
};

export function createGrpcListeners(options: Options): GrpcListeners {
  const ports = new Map<string, Port>();
  let anonymous = 0;
  let graphs = 0;
  const removeGauge = options.metrics.gauge(
    'tracectl_grpc_connections',
    'Open connections of a gRPC listener.',
    () => [...ports.values()].map(connectionsOf),
  );

  async function bind(
    endpoint: string,
    settings: GrpcSettings,
    graph: number,
  ): Promise<GrpcListener> {
    const parsed = parseEndpoint(endpoint);
    if (parsed === undefined) throw new Error(`${endpoint} is no host:port`);
    const address = await addressOf(parsed.host);
    const key = `${address}:${parsed.port}${parsed.port === 0 ? `#${++anonymous}` : ''}`;
    const port = ports.get(key) ?? createPort(endpoint, address, parsed.port);
    if (port.holds.some((hold) => hold.graph === graph && !hold.isClosed)) {
      throw new Error(`${endpoint} is in use by another receiver: give one of them another port`);
    }
    ports.set(key, port);
    const hold: Hold = {
      graph,
      settings,
      sockets: new Set(),
      places: new ConnectionPlaces(connectionBounds(settings.limits), options.clock),
      proxies: new ProxyGate({ ...options, endpoint }, settings.limits),
      server: undefined,
      isClosed: false,
    };
    port.holds.push(hold);
    return {
      open: () => open(port, hold, options),
      async close(deadline) {
        if (hold.isClosed) return;
        hold.isClosed = true;
        const isLast = port.holds.every(({ isClosed }) => isClosed);
        if (isLast && ports.get(key) === port) ports.delete(key);
        await close(port, hold, isLast, deadline);
      },
      url: () => urlOf(port),
    };
  }

  const ofGraph = (graph: number): GrpcListeners => ({
    bind: (endpoint, settings) => bind(endpoint, settings, graph),
    nextGraph: () => ofGraph(++graphs),
    served: () => [...ports.values()].flatMap(servedBy),
    close: removeGauge,
  });
  return ofGraph(graphs);
}

function createPort(endpoint: string, address: string, number: number): Port {
  const listener = createServer({ noDelay: true });
  const port: Port = { endpoint, address, number, listener, holds: [], listening: undefined };
  listener.on('connection', (socket) => {
    socket.on('error', () => {});
    const hold = newestOpen(port);
    if (hold?.server === undefined) {
      socket.destroy();
      return;
    }
    hold.sockets.add(socket);
    socket.once('close', () => hold.sockets.delete(socket));
    const { server, places, proxies, settings } = hold;
    proxies.accept(socket, () => {
      if (!places.enter(socket, proxies.clientOf(socket))) return;
      if (settings.tls === undefined) server.accept(socket);
      else settings.tls.emit('connection', socket);
    });
  });
  return port;
}

function newestOpen({ holds }: Port): Hold | undefined {
  return holds.findLast(({ server, isClosed }) => server !== undefined && !isClosed);
}

async function open(port: Port, hold: Hold, options: Options): Promise<void> {
  const { clock, logger, sharesPorts: reusePort = false } = options;
  const { createGrpcServer } = await import('./server.ts');
  const server = await createGrpcServer({
    ...hold.settings,
    ...{ clock, logger },
    peerOf: (peer) => hold.proxies.clientOf(peer),
    occupy: (peer) => hold.places.occupy(peer),
  });
  const { listener, address: host, number } = port;
  port.listening ??= listenOn(listener, { host, port: number, reusePort });
  try {
    await port.listening;
  } catch (error) {
    port.listening = undefined;
    throw cannotListen(port.endpoint, error);
  }
  hold.settings.tls?.on('secureConnection', (connection) => {
    connection.on('error', () => {});
    server.accept(connection);
  });
  hold.server = server;
}

async function close(
  port: Port,
  hold: Hold,
  isLast: boolean,
  deadline: AbortSignal,
): Promise<void> {
  const unbound =
    isLast && port.listener.listening
      ? new Promise<void>((resolve) => port.listener.close(() => resolve()))
      : undefined;
  const { promise: cut, resolve } = Promise.withResolvers<void>();
  const cutAll = (): void => {
    for (const socket of hold.sockets) socket.destroy();
    resolve();
  };
  if (deadline.aborted) cutAll();
  deadline.addEventListener('abort', cutAll, { once: true });
  await Promise.race([hold.server?.drain(), cut]);
  cutAll();
  deadline.removeEventListener('abort', cutAll);
  port.holds.splice(port.holds.indexOf(hold), 1);
  await unbound;
}

function connectionsOf({ endpoint, holds }: Port) {
  const value = holds.reduce((sum, { sockets }) => sum + sockets.size, 0);
  return { value, labels: { endpoint } };
}

function urlOf(port: Port): string | undefined {
  const { listener, address } = port;
  const bound = listener.address() as AddressInfo | null;
  if (bound === null) return undefined;
  const scheme = newestOpen(port)?.settings.tls === undefined ? 'http' : 'https';
  return `${scheme}://${isIP(address) === 6 ? `[${address}]` : address}:${bound.port}`;
}

function servedBy(port: Port): { url: string; routes: string[] }[] {
  const url = urlOf(port);
  const methods = newestOpen(port)?.settings.methods ?? [];
  if (url === undefined) return [];
  return [{ url, routes: methods.map(({ path }) => `gRPC ${path.slice(1)}`) }];
}
