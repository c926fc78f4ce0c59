import { isIP } from 'node:net';
import { capability } from '../component/capability.ts';
import type { Clock, Logger, Metrics } from '../component/component.ts';
import { Refusal } from '../model/errors.ts';
import { addressOf, cannotListen } from '../net/address.ts';
import type { Endpoint } from '../schema/fields.ts';
import { parseEndpoint } from '../schema/fields.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import type { TlsServing } from '../tls/serving.ts';
import { openTls } from '../tls/serving.ts';
import type { BytesInFlight } from './admission.ts';
import { boundBytesInFlight } from './admission.ts';
import { renderEnvelopeRefusal } from './envelope.ts';
import type { PathPattern, Route } from './routes.ts';
import { compilePath, decodeParams, matchPath } from './routes.ts';
import type { Scanner } from './scan-pool.ts';
import { createScanner } from './scan-pool.ts';
import type { Found, HttpServer, ServerLimits } from './server.ts';
import { createHttpServer } from './server.ts';

/**
 * The HTTP listeners of the service. Receivers that name one endpoint share one server; each holds its own
 * `Listener` on it, and the server listens while any of them is open.
 */
export type Listeners = {
  /**
   * A receiver's part of the server at `endpoint`, which is `host:port`, compared after resolution; port 0
   * is always a server of its own. Rejects when the endpoint already has other settings.
   */
  bind(endpoint: string, settings: ListenerSettings): Promise<Listener>;
  /**
   * For the next graph on a reload: in it a route may be registered again, and serves once it is open,
   * while the graph before it finishes what it has.
   */
  nextGraph(): Listeners;
  /** What listens now, and what it serves: for the banner at the start. */
  served(): { readonly url: string; readonly routes: readonly string[] }[];
  readonly bytesInFlight: BytesInFlight;
  readonly scanner: Scanner;
  /** Ends what the listeners share; every `Listener` has been closed before. */
  close(): Promise<void>;
};

export type ListenerSettings = ServerLimits & { readonly tls?: ServerTls | undefined };

/** Offered by the service to receivers. */
export const LISTENERS = capability<Listeners>('listeners');

export type Listener = {
  /** Registers a route; throws when another receiver of the same graph serves it. */
  route(route: Route): void;
  unroute(method: string, path: string): void;
  /** Begins to serve. Rejects with a clear sentence when the address cannot be bound. */
  open(): Promise<void>;
  /**
   * Stops serving. Resolves when the requests under way are answered; at the deadline they are cut. While
   * other receivers of the graph still serve the address, requests for these routes are answered 503.
   */
  close(deadline: AbortSignal): Promise<void>;
  /** `http://127.0.0.1:4318`, with the real port; undefined while not listening. */
  url(): string | undefined;
};

/** One receiver's hold on a shared server. */
type Hold = {
  readonly graph: number;
  readonly routes: { pattern: PathPattern; route: Route }[];
  state: 'bound' | 'open' | 'closed';
  underWay: number;
  /** Called when the last request under way is done. */
  idle: (() => void) | undefined;
};

type Shared = {
  readonly endpoint: string;
  readonly host: string;
  readonly server: HttpServer;
  readonly holds: Hold[];
  settings: ListenerSettings;
  settingsGraph: number;
  listening: Promise<void> | undefined;
  /** Its settings, as JSON, and what serves them. */
  tlsKey: string;
  tls: TlsServing | undefined;
};

type Options = {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly limits: { readonly in_flight_bytes: number };
  /** Other processes of this daemon listen on the same ports. */
  readonly sharesPorts?: boolean;
};

export function createListeners(options: Options): Listeners {
  const servers = new Servers(options);
  const bytesInFlight = boundBytesInFlight(options.limits.in_flight_bytes);
  const scanner = createScanner();
  const removeGauges = registerGauges(options.metrics, servers, bytesInFlight);
  let graphs = 0;

  function ofGraph(graph: number): Listeners {
    return {
      bind: (endpoint, settings) => servers.bind(endpoint, settings, graph),
      nextGraph: () => ofGraph(++graphs),
      served: () => servers.served(),
      bytesInFlight,
      scanner,
      async close() {
        removeGauges();
        await scanner.close();
      },
    };
  }

  return ofGraph(graphs);
}

function registerGauges(metrics: Metrics, servers: Servers, held: BytesInFlight): () => void {
  const removers = [
    metrics.gauge('tracectl_http_in_flight_bytes', 'Bytes held for requests under way.', () => [
      { value: held.held },
    ]),
    metrics.gauge('tracectl_http_connections', 'Open connections of a listener.', () =>
      servers.connections(),
    ),
  ];
  return () => {
    for (const remove of removers) remove();
  };
}

/** Every server there is, by the address it was asked to listen on. */
class Servers {
  readonly #options: Options;
  readonly #shared = new Map<string, Shared>();
  #anonymous = 0;

  constructor(options: Options) {
    this.#options = options;
  }

  async bind(endpoint: string, settings: ListenerSettings, graph: number): Promise<Listener> {
    const parsed = parseEndpoint(endpoint);
    if (parsed === undefined) throw new Error(`${endpoint} is no host:port`);
    const address = await addressOf(parsed.host);
    const anonymous = parsed.port === 0 ? `#${++this.#anonymous}` : '';
    const key = `${address}:${parsed.port}${anonymous}`;
    const found = this.#shared.get(key);
    if (found !== undefined) assertSameSettings(found, endpoint, settings, graph);
    const entry = found ?? this.#create(endpoint, parsed, address, settings, graph);
    this.#shared.set(key, entry);
    const hold: Hold = { graph, routes: [], state: 'bound', underWay: 0, idle: undefined };
    entry.holds.push(hold);
    return {
      route: (route) => addRoute(entry, hold, route),
      unroute: (method, path) => removeRoute(hold, method, path),
      open: () => open(entry, hold, settings, this.#options),
      close: (deadline) => this.#close(key, entry, hold, deadline),
      url: () => urlOf(entry),
    };
  }

  served(): { url: string; routes: string[] }[] {
    return [...this.#shared.values()].flatMap(servedBy);
  }

  connections(): { value: number; labels: { endpoint: string } }[] {
    return [...this.#shared.values()].map(({ endpoint, server }) => ({
      value: server.connections,
      labels: { endpoint },
    }));
  }

  #create(
    endpoint: string,
    { host, port }: Endpoint,
    address: string,
    settings: ListenerSettings,
    graph: number,
  ): Shared {
    const holds: Hold[] = [];
    const server = createHttpServer({
      host: address,
      port,
      sharesPort: this.#options.sharesPorts === true,
      limits: settings,
      logger: this.#options.logger,
      clock: this.#options.clock,
      find: (method, path) => find(holds, method, path),
    });
    return {
      ...{ endpoint, host, server, holds, settings, settingsGraph: graph, listening: undefined },
      ...{ tlsKey: keyOf(undefined), tls: undefined },
    };
  }

  async #close(key: string, entry: Shared, hold: Hold, deadline: AbortSignal): Promise<void> {
    if (hold.state === 'closed') return;
    hold.state = 'closed';
    if (entry.holds.some(({ state }) => state !== 'closed')) return finished(hold, deadline);
    if (this.#shared.get(key) === entry) this.#shared.delete(key);
    if (entry.listening !== undefined) await entry.server.close(deadline);
    entry.tls?.close();
  }
}

async function open(
  entry: Shared,
  hold: Hold,
  settings: ListenerSettings,
  options: Options,
): Promise<void> {
  await secure(entry, settings, options);
  entry.listening ??= entry.server.listen();
  try {
    await entry.listening;
  } catch (error) {
    entry.listening = undefined;
    throw cannotListen(entry.endpoint, error);
  }
  entry.server.limit(settings);
  hold.state = 'open';
}

/** The first of a graph that opens brings the graph's TLS; what cannot serve leaves the one before in place. */
async function secure(
  entry: Shared,
  { tls, readHeaderTimeout: handshakeTimeout }: ListenerSettings,
  { clock, logger, metrics }: Options,
): Promise<void> {
  const key = keyOf(tls);
  if (entry.tlsKey === key) return;
  const { endpoint } = entry;
  const protocols = ['http/1.1'] as const;
  const parts = { clock, logger, metrics, endpoint, handshakeTimeout, protocols };
  const opened = tls === undefined ? undefined : await openTls(tls, parts);
  entry.server.secure(opened?.server);
  entry.tls?.close();
  entry.tls = opened;
  entry.tlsKey = key;
}

function keyOf(tls: ServerTls | undefined): string {
  return JSON.stringify(tls ?? null);
}

const nowhere: Found = {
  refusal: new Refusal('not_found', 'Nothing is served at this path.'),
  renderRefusal: renderEnvelopeRefusal,
};

/** The newest graph first; in it whoever is open; of several that share a route the highest rank. */
function find(holds: readonly Hold[], method: string, path: string): Found {
  const candidates = matching(holds, path);
  const [nearest] = candidates;
  if (nearest === undefined) return nowhere;
  const chosen = candidates.find(({ route }) => serves(route.method, method));
  const { renderRefusal } = (chosen ?? nearest).route;
  if (chosen === undefined) return { refusal: notAllowed(candidates), renderRefusal };
  const { hold, route } = chosen;
  if (hold.state !== 'open') {
    const refusal = new Refusal('unavailable', 'The service is stopping. Try again.', {
      retryAfterMs: 1000,
    });
    return { refusal, renderRefusal };
  }
  const params = decodeParams(chosen.params);
  if (params === undefined) {
    const refusal = new Refusal('invalid_request', 'The path has a broken percent escape.');
    return { refusal, renderRefusal };
  }
  hold.underWay++;
  const done = (): void => {
    hold.underWay--;
    if (hold.underWay === 0) hold.idle?.();
  };
  return { handler: route.handler, params, renderRefusal, done };
}

type Candidate = { hold: Hold; route: Route; params: Record<string, string> };

function matching(holds: readonly Hold[], path: string): Candidate[] {
  const segments = path.split('/');
  const newestOpen = Math.max(...holds.map(({ graph, state }) => (state === 'open' ? graph : -1)));
  const candidates: Candidate[] = [];
  for (const hold of holds) {
    // A closed hold speaks only while nothing newer has taken over.
    if (hold.state === 'bound' || hold.graph < newestOpen) continue;
    for (const { pattern, route } of hold.routes) {
      const params = matchPath(pattern, path, segments);
      if (params !== undefined) candidates.push({ hold, route, params });
    }
  }
  return candidates.sort((a, b) => precedence(b) - precedence(a));
}

/** Open before closed, then a path without parameters before one with, then by rank. */
function precedence({ hold, route, params }: Candidate): number {
  const open = hold.state === 'open' ? 1000 : 0;
  const exact = Object.keys(params).length === 0 ? 100 : 0;
  return open + exact + (route.sharedRank ?? 0);
}

function serves(routeMethod: string, method: string): boolean {
  return routeMethod === method || (routeMethod === 'GET' && method === 'HEAD');
}

function notAllowed(candidates: readonly Candidate[]): Refusal {
  const methods = new Set(candidates.map(({ route }) => route.method));
  if (methods.has('GET')) methods.add('HEAD');
  const allow = [...methods].sort().join(', ');
  return new Refusal('method_not_allowed', `This path takes ${allow}.`, { allow });
}

function addRoute(entry: Shared, hold: Hold, route: Route): void {
  const taken = entry.holds.some(
    (other) =>
      other.graph === hold.graph &&
      other.state !== 'closed' &&
      other.routes.some(
        ({ route: theirs }) =>
          theirs.method === route.method &&
          theirs.path === route.path &&
          (other === hold || theirs.sharedRank === undefined || route.sharedRank === undefined),
      ),
  );
  if (taken) {
    throw new Error(
      `${route.method} ${route.path} is already served on ${entry.endpoint}: ` +
        'two receivers of one type need endpoints of their own',
    );
  }
  hold.routes.push({ pattern: compilePath(route.path), route });
}

function removeRoute(hold: Hold, method: string, path: string): void {
  const at = hold.routes.findIndex(({ route }) => route.method === method && route.path === path);
  if (at !== -1) hold.routes.splice(at, 1);
}

function assertSameSettings(
  found: Shared,
  endpoint: string,
  settings: ListenerSettings,
  graph: number,
): void {
  if (found.settingsGraph < graph) {
    found.settings = settings;
    found.settingsGraph = graph;
    return;
  }
  for (const name of ['readHeaderTimeout', 'readTimeout', 'maxConnections'] as const) {
    if (found.settings[name] === settings[name]) continue;
    throw new Error(
      `receivers that share ${endpoint} must agree on their settings: ` +
        `${name} is ${found.settings[name]} and ${settings[name]}`,
    );
  }
  if (keyOf(found.settings.tls) === keyOf(settings.tls)) return;
  throw new Error(
    `receivers that share ${endpoint} must agree on their settings: tls differs, or one has none`,
  );
}

/** Resolves when the hold's requests are answered, or with the deadline. */
function finished(hold: Hold, deadline: AbortSignal): Promise<void> {
  if (hold.underWay === 0 || deadline.aborted) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  hold.idle = resolve;
  deadline.addEventListener('abort', () => resolve(), { once: true });
  return promise;
}

function urlOf(entry: Shared): string | undefined {
  const address = entry.server.address();
  if (address === undefined) return undefined;
  const host = isIP(entry.host) === 6 ? `[${entry.host}]` : entry.host;
  return `${entry.tls !== undefined ? 'https' : 'http'}://${host}:${address.port}`;
}

function servedBy(entry: Shared): { url: string; routes: string[] }[] {
  const url = urlOf(entry);
  if (url === undefined) return [];
  const routes = entry.holds
    .filter(({ state }) => state === 'open')
    .flatMap((hold) => hold.routes.filter(({ route }) => route.hidden !== true))
    .map(({ route }) => `${route.method} ${route.path}`);
  return [{ url, routes: [...new Set(routes)] }];
}
