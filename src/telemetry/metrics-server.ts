import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Clock, Logger } from '../component/component.ts';
import { boundAddress, listenOn } from '../net/address.ts';
import { boundConnections } from '../net/bounded-connections.ts';
import { hasManyHosts, ownHostCheck } from '../net/own-host.ts';
import type { ProxySettings } from '../net/proxy-gate.ts';
import { ProxyGate } from '../net/proxy-gate.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import { secureHttp } from '../tls/secured.ts';
import type { ServiceMetrics } from './metrics.ts';

const { createServer } = process.getBuiltinModule('node:http');

export type MetricsServerOptions = {
  readonly metrics: ServiceMetrics;
  /** Port 0 lets the system choose. */
  readonly endpoint: { readonly host: string; readonly port: number };
  /** The configuration names the endpoint: a failure to bind it is an error, not a warning. */
  readonly isConfigured: boolean;
  /** Serves HTTPS with this certificate. */
  readonly tls?: ServerTls | undefined;
  /** Further names that a `Host` header may have. */
  readonly allowedHosts?: readonly string[];
  readonly proxies?: ProxySettings;
  readonly logger: Logger;
  readonly clock: Clock;
};

/** `address` is the listening address, with the scheme for HTTPS; undefined when the default address was in use. */
export type MetricsServer = { readonly address: string | undefined; close(): Promise<void> };

/** Longest head of a request, and interval of its check. Milliseconds. */
const HEAD_MS = 2_000;
const CHECK_MS = 500;
/** Closes connections of clients that do not read their answer. */
const IDLE_MS = 10_000;
const BOUNDS = { max: 64, maxPerAddress: 16, isForOperators: true };

/**
 * Serves `GET /metrics`. The server of the metrics library cannot bind port 0 and answers every method.
 * Rejects when a configured endpoint cannot be bound.
 */
export async function startMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const { logger } = options;
  const { host, port } = options.endpoint;
  const address = `${host}:${port}`;
  const refusalOf = ownHostCheck(host, options.allowedHosts ?? []);
  const server = createServer(
    { requestTimeout: HEAD_MS, headersTimeout: HEAD_MS, connectionsCheckingInterval: CHECK_MS },
    (request, response) => {
      if (hasManyHosts(request)) return refuse(response, 400, {});
      const refusal = refusalOf(request.headers);
      if (refusal !== undefined) {
        return refuse(response, refusal.header === 'host' ? 421 : 403, {}, refusal.reason);
      }
      answer(options.metrics, request, response).catch((error: unknown) => {
        logger.warn({ err: error }, 'Metrics could not be collected');
        response.destroy();
      });
    },
  );
  server.timeout = IDLE_MS;
  server.on('clientError', (_error, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n');
    else socket.destroy();
  });
  const { tls, metrics, clock } = options;
  const parts = { clock, logger, endpoint: address };
  const unsecure =
    tls === undefined ? () => {} : await secureHttp(server, tls, { ...parts, metrics });
  const proxies = new ProxyGate(parts, options.proxies);
  boundConnections(server, BOUNDS, proxies, clock);
  try {
    await listenOn(server, { host, port });
  } catch (error) {
    unsecure();
    if (options.isConfigured) {
      throw new Error(`cannot serve metrics on ${address}: ${reason(error)}`, { cause: error });
    }
    logger.warn(
      { address, reason: reason(error) },
      'Metrics are not served: the address is in use',
    );
    return { address: undefined, close: async () => {} };
  }
  server.on('error', (error) => logger.warn({ err: error }, 'Metrics server failed'));
  const scheme = tls === undefined ? '' : 'https://';
  return {
    address: scheme + boundAddress(server),
    close() {
      proxies.close();
      unsecure();
      return close(server);
    },
  };
}

async function answer(
  metrics: ServiceMetrics,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // The target is compared as text: parsing it as a URL throws on `//` and `http://[`.
  const path = (request.url ?? '').split('?', 1)[0];
  if (path !== '/metrics') return refuse(response, 404, {});
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return refuse(response, 405, { allow: 'GET, HEAD' });
  }
  const text = await metrics.text();
  response.writeHead(200, {
    'content-type': 'text/plain; version=0.0.4; charset=utf-8',
    'content-length': Buffer.byteLength(text),
  });
  response.end(request.method === 'HEAD' ? undefined : text);
}

function refuse(
  response: ServerResponse,
  status: number,
  headers: Record<string, string>,
  reason = '',
): void {
  const length = Buffer.byteLength(reason);
  response.writeHead(status, { ...headers, 'content-length': length, connection: 'close' });
  response.end(reason);
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
