import type { Receiver, Settings } from '../component/component.ts';
import type { Incoming, Ingestion, Protocol } from '../http/ingest.ts';
import { ingest } from '../http/ingest.ts';
import { ingestionOf } from '../http/receiver.ts';
import type { Entrance } from '../http/routes.ts';
import { MAX_BODY_BYTES } from '../model/formats.ts';
import type { TlsServing } from '../tls/serving.ts';
import { openTls } from '../tls/serving.ts';
import type { GrpcListenerConfig } from './config.ts';
import { grpcLimitsOf, HANDSHAKE_MS } from './config.ts';
import type { GrpcListener } from './listener.ts';
import { GRPC_LISTENERS } from './listener.ts';

/** The methods of a gRPC receiver, on a port of its own. */
export type GrpcService = Entrance & {
  readonly endpoint: string;
  readonly listener: GrpcListenerConfig;
  /** `/package.Service/Method`. */
  readonly path: string;
  readonly protocol: Protocol;
  readonly otherMethods?: readonly OtherMethod[];
};

/** A method beside the main one, which decides itself what it does with a call. */
type OtherMethod = {
  readonly path: string;
  handle(incoming: Incoming, shared: Omit<Ingestion, 'protocol'>): Promise<void>;
};

/** A receiver that consists of gRPC methods: it opens with `start` and drains with `shutdown`. */
export function grpcReceiver(settings: Settings, service: GrpcService): Receiver {
  let listener: GrpcListener | undefined;
  let tls: TlsServing | undefined;
  return {
    async start() {
      const refusals = settings.metrics.counter(
        'tracectl_grpc_refusals_total',
        'Calls that were answered with a refusal, at whatever stage, by code.',
      );
      const { endpoint, path, protocol } = service;
      const shared = ingestionOf(settings, service, refusals);
      const ingestion = { ...shared, protocol };
      const { maxBytes = MAX_BODY_BYTES } = protocol;
      tls = await tlsOf(settings, service);
      listener = await settings.host.service(GRPC_LISTENERS).bind(endpoint, {
        limits: grpcLimitsOf(service.listener),
        methods: [
          { path, maxBytes, handler: (incoming) => ingest(incoming, ingestion) },
          ...(service.otherMethods ?? []).map((other) => ({
            ...{ path: other.path, maxBytes },
            handler: (incoming: Incoming) => other.handle(incoming, shared),
          })),
        ],
        ...(tls === undefined ? {} : { tls: tls.server }),
      });
      await listener.open();
    },
    async shutdown(deadline) {
      await listener?.close(deadline);
      tls?.close();
    },
  };
}

async function tlsOf(
  { clock, logger, metrics }: Settings,
  { endpoint, listener: { tls } }: GrpcService,
): Promise<TlsServing | undefined> {
  if (tls === undefined) return undefined;
  const protocols = ['h2'] as const;
  const handshakeTimeout = HANDSHAKE_MS;
  return openTls(tls, { clock, logger, metrics, endpoint, handshakeTimeout, protocols });
}
