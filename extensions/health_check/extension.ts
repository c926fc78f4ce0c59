import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Extension, Settings } from '../../src/component/component.ts';
import type { HealthReport, HealthSource } from '../../src/component/health.ts';
import { HEALTH } from '../../src/component/health.ts';
import { parseTarget } from '../../src/http/routes.ts';
import { boundAddress } from '../../src/net/address.ts';
import { boundConnections } from '../../src/net/bounded-connections.ts';
import { hasManyHosts } from '../../src/net/own-host.ts';
import { ProxyGate } from '../../src/net/proxy-gate.ts';
import { parseEndpoint } from '../../src/schema/fields.ts';
import { proxySettings } from '../../src/schema/trusted-proxies.ts';
import { secureHttp } from '../../src/tls/secured.ts';
import type { HealthCheckConfig } from './config.ts';

const { createServer } = process.getBuiltinModule('node:http');

/** Longest head of a request, and interval of its check. Milliseconds. */
const HEAD_MS = 2_000;
const CHECK_MS = 500;
/** Closes connections of clients that do not read their answer. */
const IDLE_MS = 10_000;
const BOUNDS = { max: 256, maxPerAddress: 32, isForOperators: true };

/**
 *   GET /livez            200 while the process answers
 *   GET /readyz           200 while the service accepts, 503 before, and from the beginning of a stop
 *   GET /readyz?verbose   the same with a report per component
 *   GET {path}            as /readyz
 */
export function createExtension(settings: Settings, config: HealthCheckConfig): Extension {
  const { clock, logger, metrics } = settings;
  let server: Server | undefined;
  let unsecure = (): void => {};
  let proxies: ProxyGate | undefined;
  return {
    offers: [],
    async start() {
      const health = settings.host.service(HEALTH);
      server = createServer({
        requestTimeout: HEAD_MS,
        headersTimeout: HEAD_MS,
        connectionsCheckingInterval: CHECK_MS,
      });
      server.timeout = IDLE_MS;
      server.on('request', (request, response) => respond(request, response, health, config));
      const { endpoint } = config;
      unsecure = await secureHttp(server, config.tls, { clock, logger, metrics, endpoint });
      proxies = new ProxyGate({ clock, logger, endpoint }, proxySettings(config));
      boundConnections(server, BOUNDS, proxies, clock);
      await listen(server, endpoint);
      settings.logger.info({ address: boundAddress(server) }, 'Serving health checks');
    },
    async shutdown() {
      proxies?.close();
      unsecure();
      const closing = server;
      if (closing?.listening !== true) return;
      await new Promise<void>((resolve) => {
        closing.close(() => resolve());
        closing.closeAllConnections();
      });
    },
  };
}

function respond(
  request: IncomingMessage,
  response: ServerResponse,
  health: HealthSource,
  config: HealthCheckConfig,
): void {
  const { status, body } = answerTo(request, health, config);
  const text = `${JSON.stringify(body)}\n`;
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    ...(status === 405 ? { allow: 'GET, HEAD' } : {}),
  });
  response.end(text);
}

function answerTo(
  request: IncomingMessage,
  health: HealthSource,
  config: HealthCheckConfig,
): { status: number; body: object } {
  if (hasManyHosts(request)) return { status: 400, body: { error: 'more than one Host header' } };
  const target = parseTarget(request.url ?? '');
  if (target === undefined) return { status: 400, body: { error: 'invalid request target' } };
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    return { status: 405, body: { error: 'only GET is allowed' } };
  }
  const { path, query } = target;
  if (path === '/livez') return { status: 200, body: { status: 'alive' } };
  if (path !== '/readyz' && path !== config.path) {
    return { status: 404, body: { error: 'unknown path' } };
  }
  const verbose = new URLSearchParams(query).has('verbose');
  const report = health.report(verbose);
  const body = verbose ? verboseBody(report) : briefBody(report);
  return { status: report.ready ? 200 : 503, body };
}

function briefBody(report: HealthReport): object {
  return {
    status: report.ready ? 'ready' : report.status,
    up_since: new Date(report.upSince).toISOString(),
    uptime_seconds: Math.floor(report.uptime / 1000),
  };
}

function verboseBody(report: HealthReport): object {
  return {
    ...briefBody(report),
    ready: report.ready,
    phase: report.status,
    components: report.components,
  };
}

function listen(server: Server, endpoint: string): Promise<void> {
  const { host, port } = parseEndpoint(endpoint) ?? { host: '127.0.0.1', port: 13_133 };
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', (error) =>
    reject(
      new Error(`health_check cannot listen on ${endpoint}: ${error.message}`, { cause: error }),
    ),
  );
  server.listen({ host, port }, resolve);
  return promise;
}
