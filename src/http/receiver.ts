import type { Pipeline, Receiver, Settings } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { STORE } from '../store/store.ts';
import type { ListenerConfig } from './config.ts';
import { limitsOf } from './config.ts';
import type { Ingestion, Protocol } from './ingest.ts';
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
  readonly protocol: Protocol;
};

/** A receiver that is routes on a shared listener: it opens with `start` and drains with `shutdown`. */
export function httpReceiver(settings: Settings, served: Served): Receiver {
  let listener: Listener | undefined;
  return {
    async start() {
      const { storeId } = served.pipeline;
      const store = storeId === undefined ? undefined : settings.host.extension(storeId, STORE);
      const rejections = store === undefined ? undefined : rejectionLog(store.rejections);
      const refusals = settings.metrics.counter(
        'tracectl_http_refusals_total',
        'Requests that were answered with a refusal, at whatever stage, by code.',
      );
      const listeners = settings.host.service(LISTENERS);
      listener = await listeners.bind(served.endpoint, limitsOf(served.listener));
      // From here on the listener is held, and `shutdown` gives it back also when the rest fails.
      served.register(listener, ({ method, path, protocol }) => {
        const ingestion: Ingestion = {
          pipeline: served.pipeline,
          protocol,
          fallback: served.fallback,
          bytesInFlight: listeners.bytesInFlight,
          scanner: listeners.scanner,
          logger: settings.logger,
          rejections,
          refusals,
        };
        const handler = (exchange: Parameters<Route['handler']>[0]) => ingest(exchange, ingestion);
        return { method, path, handler, renderRefusal: protocol.renderRefusal };
      });
      await listener.open();
    },
    async shutdown(deadline) {
      await listener?.close(deadline);
    },
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
