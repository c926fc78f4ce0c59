import type { Counter, Pipeline, Receiver, Settings } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { STORE } from '../store/store.ts';
import type { ListenerConfig } from './config.ts';
import { listenerSettings } from './config.ts';
import type { HttpProtocol } from './incoming.ts';
import { incomingOf } from './incoming.ts';
import type { Ingestion } from './ingest.ts';
import { ingest } from './ingest.ts';
import type { Listener } from './listener.ts';
import { LISTENERS } from './listener.ts';
import { rejectionLog } from './rejection-log.ts';
import type { Route } from './routes.ts';

/** What an HTTP receiver serves, beside what its listener serves for all of them. */
export type Served = {
  readonly endpoint: string;
  readonly listener: ListenerConfig;
  /** Registers the receiver's routes; called once, before the listener opens. */
  register(listener: Listener, serve: (route: IngestRoute) => Route): void;
  readonly pipeline: Pipeline;
  readonly fallback: Tenant | undefined;
};

export type IngestRoute = {
  readonly method: string;
  readonly path: string;
  readonly protocol: HttpProtocol;
};

/** A receiver that is routes on a shared listener: it opens with `start` and drains with `shutdown`. */
export function httpReceiver(settings: Settings, served: Served): Receiver {
  let listener: Listener | undefined;
  return {
    async start() {
      const refusals = settings.metrics.counter(
        'tracectl_http_refusals_total',
        'Requests that were answered with a refusal, at whatever stage, by code.',
      );
      const entrance = entranceOf(settings, served, refusals);
      const listeners = settings.host.service(LISTENERS);
      listener = await listeners.bind(served.endpoint, listenerSettings(served.listener));
      // From here on the listener is held, and `shutdown` gives it back also when the rest fails.
      served.register(listener, ({ method, path, protocol }) => {
        const ingestion: Ingestion = { ...entrance, protocol };
        const { renderRefusal } = protocol;
        const handler: Route['handler'] = (exchange) =>
          ingest(incomingOf(exchange, renderRefusal), ingestion);
        return { method, path, handler, renderRefusal };
      });
      await listener.open();
    },
    async shutdown(deadline) {
      await listener?.close(deadline);
    },
  };
}

/** What the requests of a receiver go through, whatever protocol they come in. */
export function entranceOf(
  { host, clock, logger }: Settings,
  { pipeline, fallback }: { pipeline: Pipeline; fallback: Tenant | undefined },
  refusals: Counter,
): Omit<Ingestion, 'protocol'> {
  const { storeId } = pipeline;
  const store = storeId === undefined ? undefined : host.extension(storeId, STORE);
  const { bytesInFlight, scanner } = host.service(LISTENERS);
  return {
    pipeline,
    fallback,
    bytesInFlight,
    scanner,
    clock,
    logger,
    rejections: store === undefined ? undefined : rejectionLog(store.rejections),
    refusals,
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
