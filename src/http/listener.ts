import { isIP } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { capability } from '../component/capability.ts';
import type { Clock, Logger, Metrics } from '../component/component.ts';
import { addressOf, cannotListen } from '../net/address.ts';
import type { Endpoint } from '../schema/fields.ts';
import { parseEndpoint } from '../schema/fields.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import type { TlsServing } from '../tls/serving.ts';
import { openTls } from '../tls/serving.ts';
import type { BudgetSettings, BytesInFlight } from './bytes-in-flight.ts';
import { boundBytesInFlight } from './bytes-in-flight.ts';
import type { FeedbackIntake } from './feedback.ts';
import type { Hold } from './holds.ts';
import { addRoute, find, finished, holdOf, routesOf } from './holds.ts';
import type { KeptAnswers } from './kept-answers.ts';
import { keptAnswers } from './kept-answers.ts';
import type { Repeats, RepeatsConfig } from './repeats.ts';
import { repeatsOf } from './repeats.ts';
import type { CommonRoutes, Entrance, Route } from './routes.ts';
import type { Scanner } from './scan-pool.ts';
import { createScanner } from './scan-pool.ts';
import type { HttpServer, ServerLimits } from './server.ts';
import { createHttpServer } from './server.ts';

/**
 * The HTTP listeners of the service. Receivers that name one endpoint share one server. Each has its own
 * `Listener` on it, and the server listens while any of them is open.
 */
export type Listeners = {
  /**
   * A receiver's part of the server at `endpoint` (`host:port`, compared after resolution; port 0 is always a
   * server of its own). With an `entrance`, the listener also serves the common routes. Rejects if the endpoint
   * already has other settings.
   */
  bind(endpoint: string, settings: ListenerSettings, entrance?: Entrance): Promise<Listener>;
  /**
   * For the next graph on a reload. It may register the same routes again; they serve once they are open, while
   * the running graph finishes its requests.
   */
  nextGraph(): Listeners;
  /**
   * A reload is complete: forgets closed listeners, so that their routes are answered 404. Before, and during a stop, they are answered
   * 503, because the next graph or the next process may serve them.
   */
  forgetClosed(): void;
  /** The addresses and routes that are served now, for the banner at the start. */
  served(): { readonly url: string; readonly routes: readonly string[] }[];
  readonly bytesInFlight: BytesInFlight;
  readonly repeats: Repeats | undefined;
  readonly kept: KeptAnswers;
  readonly feedback: FeedbackIntake | undefined;
  readonly scanner: Scanner;
  /** Closes what the listeners share. Every `Listener` is closed before. */
  close(): Promise<void>;
};

export type ListenerSettings = ServerLimits & { readonly tls?: ServerTls | undefined };

/** Offered by the service to receivers. */
export const LISTENERS = capability<Listeners>('listeners');

export type Listener = {
  /** Registers a route; throws if another receiver of the same graph serves it. */
  route(route: Route): void;
  /** Begins to serve. Rejects with a clear sentence if the address cannot be bound. */
  open(): Promise<void>;
  /**
   * Stops serving. Resolves when the requests in progress are answered; at the deadline they are cut. While
   * other receivers of the graph serve the address, requests for these routes are answered 503.
   */
  close(deadline: AbortSignal): Promise<void>;
  /** `http://127.0.0.1:4318`, with the real port; undefined while not listening. */
  url(): string | undefined;
};

type Shared = {
  readonly endpoint: string;
  readonly host: string;
  readonly server: HttpServer;
  readonly holds: Hold[];
  /** The settings of holds that are not closed. */
  readonly settingsOf: Map<Hold, ListenerSettings>;
  /** Those of the newest graph. */
  settings: ListenerSettings;
  settingsGraph: number;
  listening: Promise<void> | undefined;
  /** A TLS server for each of their settings, which are the key as JSON. */
  readonly servings: Map<string, TlsServing>;
  /** The settings of new connections. */
  tlsKey: string;
};

/** `service.limits`. */
type InFlightLimits = {
  readonly in_flight_bytes: number;
  readonly client_share: number;
  readonly client_reserve: number;
  readonly requests_per_key: number;
  readonly read_cache_bytes: number;
};

type Options = {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly limits: InFlightLimits;
  /** Undefined: repeated requests are not recognized. */
  readonly repeats?: RepeatsConfig;
  /** Other processes of this daemon listen on the same ports. */
  readonly sharesPorts?: boolean;
  /** The routes that a listener serves once, for all receivers on it. */
  readonly common?: (shared: Pick<Listeners, 'bytesInFlight' | 'scanner'>) => CommonRoutes;
};

const NO_ROUTES: CommonRoutes = { routes: [], preference: () => 0 };

export function createListeners(options: Options): Listeners {
  const bytesInFlight = boundBytesInFlight(budgetSettings(options));
  const scanner = createScanner(options.limits.read_cache_bytes / 2);
  const repeats = options.repeats && repeatsOf(options.repeats);
  const kept = keptAnswers(options.clock);
  const common = options.common?.({ bytesInFlight, scanner }) ?? NO_ROUTES;
  const servers = new Servers(options, common);
  const removeGauges = registerGauges(options.metrics, servers, bytesInFlight);
  let graphs = 0;

  function ofGraph(graph: number): Listeners {
    return {
      bind: (endpoint, settings, entrance) => servers.bind(endpoint, settings, graph, entrance),
      nextGraph: () => ofGraph(++graphs),
      forgetClosed: () => servers.forgetClosed(),
      served: () => servers.served(),
      bytesInFlight,
      scanner,
      repeats,
      kept,
      feedback: common.feedback,
      async close() {
        removeGauges();
        await scanner.close();
      },
    };
  }

  return ofGraph(graphs);
}

function budgetSettings({ limits, clock }: Options): BudgetSettings {
  return {
    limit: limits.in_flight_bytes,
    share: limits.client_share,
    reserve: limits.client_reserve,
    requestsPerKey: limits.requests_per_key,
    clock,
  };
}

function registerGauges(metrics: Metrics, servers: Servers, held: BytesInFlight): () => void {
  const removers = [
    metrics.gauge('tracectl_http_in_flight_bytes', 'Bytes held for requests in progress.', () => [
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

/** All servers, by their resolved address. */
class Servers {
  readonly #options: Options;
  readonly #common: CommonRoutes;
  readonly #shared = new Map<string, Shared>();
  #anonymous = 0;

  constructor(options: Options, common: CommonRoutes) {
    this.#options = options;
    this.#common = common;
  }

  async bind(
    endpoint: string,
    settings: ListenerSettings,
    graph: number,
    entrance: Entrance | undefined,
  ): Promise<Listener> {
    const parsed = parseEndpoint(endpoint);
    if (parsed === undefined) throw new Error(`${endpoint} is no host:port`);
    const address = await addressOf(parsed.host);
    const anonymous = parsed.port === 0 ? `#${++this.#anonymous}` : '';
    const key = `${address}:${parsed.port}${anonymous}`;
    const found = this.#shared.get(key);
    if (found !== undefined) agree(found, endpoint, settings, graph);
    const entry = found ?? this.#create(endpoint, parsed, address, settings, graph);
    this.#shared.set(key, entry);
    const hold = holdOf(entry.holds, graph, entrance, this.#common);
    entry.holds.push(hold);
    entry.settingsOf.set(hold, settings);
    return {
      route: (route) => addRoute(entry.endpoint, entry.holds, hold, route),
      open: () => open(entry, hold, settings, this.#options),
      close: (deadline) => this.#close(key, entry, hold, deadline),
      url: () => urlOf(entry),
    };
  }

  forgetClosed(): void {
    for (const { holds } of this.#shared.values()) {
      holds.splice(0, holds.length, ...holds.filter(({ state }) => state !== 'closed'));
    }
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
      ...{ settingsOf: new Map(), servings: new Map(), tlsKey: keyOf(undefined) },
    };
  }

  async #close(key: string, entry: Shared, hold: Hold, deadline: AbortSignal): Promise<void> {
    if (hold.state === 'closed') return;
    hold.state = 'closed';
    entry.settingsOf.delete(hold);
    if (entry.settingsOf.size > 0) {
      restore(entry);
      return finished(hold, deadline);
    }
    if (this.#shared.get(key) === entry) this.#shared.delete(key);
    if (entry.listening !== undefined) await entry.server.close(deadline);
    closeUnused(entry);
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
  const { endpoint, servings } = entry;
  if (tls !== undefined && !servings.has(key)) {
    const protocols = ['http/1.1'] as const;
    const parts = { clock, logger, metrics, endpoint, handshakeTimeout, protocols };
    servings.set(key, await openTls(tls, parts));
  }
  useTls(entry, key);
}

function useTls(entry: Shared, key: string): void {
  if (entry.tlsKey === key) return;
  entry.tlsKey = key;
  entry.server.secure(entry.servings.get(key)?.server);
}

/**
 * The settings of the newest open hold. They differ from those in use if a graph whose receiver opened could not be started as a whole, so
 * that the former graph goes on.
 */
function restore(entry: Shared): void {
  let newest: Hold | undefined;
  for (const hold of entry.settingsOf.keys()) {
    if (hold.state === 'open' && hold.graph >= (newest?.graph ?? 0)) newest = hold;
  }
  const settings = newest && entry.settingsOf.get(newest);
  if (settings !== undefined) {
    useTls(entry, keyOf(settings.tls));
    entry.server.limit(settings);
  }
  closeUnused(entry);
}

function closeUnused({ servings, settingsOf }: Shared): void {
  const used = new Set([...settingsOf.values()].map(({ tls }) => keyOf(tls)));
  for (const [key, serving] of servings) {
    if (used.has(key)) continue;
    serving.close();
    servings.delete(key);
  }
}

function keyOf(tls: ServerTls | undefined): string {
  return JSON.stringify(tls ?? null);
}

/** Throws if the settings differ from those of another receiver of the same graph. Those of a newer graph replace the former ones. */
function agree(shared: Shared, endpoint: string, settings: ListenerSettings, graph: number): void {
  if (shared.settingsGraph < graph) {
    shared.settings = settings;
    shared.settingsGraph = graph;
    return;
  }
  const differing = Object.entries(FIELDS)
    .filter(([, read]) => !isDeepStrictEqual(read(shared.settings), read(settings)))
    .map(([name]) => name);
  if (differing.length === 0) return;
  throw new Error(
    `receivers that share ${endpoint} have different values of ${differing.join(', ')}: ` +
      'give them the same, or give each receiver an endpoint of its own',
  );
}

/** The settings of a listener, by their names in the configuration. */
const FIELDS: Readonly<Record<string, (settings: ListenerSettings) => unknown>> = {
  read_header_timeout: ({ readHeaderTimeout }) => readHeaderTimeout,
  read_timeout: ({ readTimeout }) => readTimeout,
  write_timeout: ({ writeTimeout }) => writeTimeout,
  body_min_rate: ({ bodyRate }) => bodyRate.bytesPerSecond,
  body_rate_period: ({ bodyRate }) => bodyRate.period,
  max_connections: ({ maxConnections }) => maxConnections,
  max_connections_per_address: ({ maxConnectionsPerAddress }) => maxConnectionsPerAddress,
  trusted_proxies: ({ trustedProxies = [] }) => trustedProxies,
  proxy_protocol: ({ proxyProtocol = false }) => proxyProtocol,
  tls: ({ tls }) => keyOf(tls),
};

function urlOf(entry: Shared): string | undefined {
  const address = entry.server.address();
  if (address === undefined) return undefined;
  const host = isIP(entry.host) === 6 ? `[${entry.host}]` : entry.host;
  return `${entry.servings.has(entry.tlsKey) ? 'https' : 'http'}://${host}:${address.port}`;
}

function servedBy(entry: Shared): { url: string; routes: string[] }[] {
  const url = urlOf(entry);
  return url === undefined ? [] : [{ url, routes: routesOf(entry.holds) }];
}
