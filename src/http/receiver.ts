import type { Counter, Receiver, Settings } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { readBody } from './body.ts';
import type { ListenerConfig } from './config.ts';
import { listenerSettings } from './config.ts';
import type { DiscardProtocol } from './discard.ts';
import { discardRequest } from './discard.ts';
import type { Exchange, RenderRefusal } from './exchange.ts';
import { answer } from './exchange.ts';
import { faultLog } from './fault-log.ts';
import type { Incoming, Ingestion, Protocol } from './ingest.ts';
import { ingest } from './ingest.ts';
import type { Listener } from './listener.ts';
import { LISTENERS } from './listener.ts';
import type { Entrance, Route } from './routes.ts';

/** The routes and the pipeline of an HTTP receiver. */
export type HttpService = Entrance & {
  readonly endpoint: string;
  readonly listener: ListenerConfig;
  readonly ingestRoutes: readonly IngestRoute[];
  /** Routes that are answered without a pipeline. */
  readonly otherRoutes?: readonly Route[];
  /** Routes whose data is not stored; they are not listed. */
  readonly discardRoutes?: readonly DiscardRoute[];
};

type IngestRoute = {
  readonly method: string;
  readonly path: string;
  readonly protocol: HttpProtocol;
  readonly hidden?: boolean;
};

type DiscardRoute = {
  readonly path: string;
  readonly protocol: DiscardProtocol;
  readonly renderRefusal: RenderRefusal;
};

/** A protocol whose refusals have a shape of their own. */
export type HttpProtocol = Protocol & { readonly renderRefusal: RenderRefusal };

/** A receiver that consists of routes on a shared listener: it opens with `start` and drains with `shutdown`. */
export function httpReceiver(settings: Settings, service: HttpService): Receiver {
  let listener: Listener | undefined;
  return {
    async start() {
      const refusals = settings.metrics.counter(
        'tracectl_http_refusals_total',
        'Requests that were answered with a refusal, at whatever stage, by code.',
      );
      const ingestion = ingestionOf(settings, service, refusals);
      const listeners = settings.host.service(LISTENERS);
      listener = await listeners.bind(
        service.endpoint,
        listenerSettings(service.listener),
        service,
      );
      // The listener is bound: `shutdown` releases it, also if the rest of the start fails.
      for (const route of service.ingestRoutes) listener.route(routeOf(route, ingestion));
      for (const route of service.discardRoutes ?? [])
        listener.route(discardRouteOf(route, ingestion));
      for (const route of service.otherRoutes ?? []) listener.route(route);
      await listener.open();
    },
    async shutdown(deadline) {
      await listener?.close(deadline);
    },
  };
}

/** The part of an ingestion that all protocols of a receiver share. */
export function ingestionOf(
  { host, clock, logger }: Settings,
  { pipeline, fallback }: Entrance,
  refusals: Counter,
): Omit<Ingestion, 'protocol'> {
  const { bytesInFlight, scanner, repeats, kept, feedback } = host.service(LISTENERS);
  return {
    ...{ pipeline, fallback, bytesInFlight, scanner, repeats, kept, feedback },
    ...{ clock, logger, refusals, faults: faultLog(logger, clock) },
  };
}

function routeOf({ protocol, ...route }: IngestRoute, shared: Omit<Ingestion, 'protocol'>): Route {
  const ingestion: Ingestion = { ...shared, protocol };
  const { renderRefusal } = protocol;
  const handler: Route['handler'] = (exchange) =>
    ingest(incomingOf(exchange, renderRefusal), ingestion);
  return { ...route, handler, renderRefusal };
}

function discardRouteOf(
  { path, protocol, renderRefusal }: DiscardRoute,
  shared: Omit<Ingestion, 'protocol'>,
): Route {
  const handler: Route['handler'] = (exchange) =>
    discardRequest(incomingOf(exchange, renderRefusal), shared, protocol);
  return { method: 'POST', path, hidden: true, handler, renderRefusal };
}

/** A request over HTTP, as ingestion reads and answers it. */
export function incomingOf(exchange: Exchange, renderRefusal: RenderRefusal): Incoming {
  const { head, params } = exchange;
  return {
    head,
    params,
    async read(reservation, encoding) {
      return { body: await readBody(exchange, reservation), encoding };
    },
    answer: (reply) => answer(exchange, reply),
    refuse: (refusal) => answer(exchange, renderRefusal(refusal, head)),
  };
}

/** The tenant of a receiver with a `project` of its own: one organization, no key. */
export function projectTenant(project: string | undefined): Tenant | undefined {
  if (project === undefined) return undefined;
  return {
    organizationId: 'org_local',
    projectId: project,
    keyId: 'key_none',
    permissions: ['ingest:write', 'traces:read'],
  };
}
