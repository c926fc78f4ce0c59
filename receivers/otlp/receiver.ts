import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { grpcReceiver } from '../../src/grpc/receiver.ts';
import { discardRequest } from '../../src/http/discard.ts';
import { ingest } from '../../src/http/ingest.ts';
import { httpReceiver, projectTenant } from '../../src/http/receiver.ts';
import type { Tenant } from '../../src/model/batch.ts';
import type { OtlpConfig } from './config.ts';
import { checkGrpcHead, EXPORT_PATH, GRPC_ANSWER_TYPE, otlpGrpcProtocol } from './grpc-protocol.ts';
import { LOGS_EXPORT_PATH, logsProtocol } from './logs.ts';
import { METRICS_EXPORT_PATH, metricsProtocol } from './metrics.ts';
import { answerType, checkHttpHead, otlpProtocol, renderOtlpRefusal } from './protocol.ts';

/**
 * The path of this service, the path that collectors append, and the path of LangSmith's clients in their
 * OpenTelemetry mode.
 */
const PATHS = ['/api/public/otel/v1/traces', '/v1/traces', '/api/v1/otel/v1/traces'];

/** Those of LangSmith's clients without `/api/v1` in their endpoint, which Braintrust's have too, and of LangWatch's clients. */
const OTHER_CLIENTS = ['/otel/v1/traces', '/api/otel/v1/traces'];
/** With a slash at the end, too. */
const ALIASES = [...[...PATHS, ...OTHER_CLIENTS].map((path) => `${path}/`), ...OTHER_CLIENTS];
const LOGS_PATH = '/v1/logs';
const MIB = 1_048_576;

/**
 *   POST /v1/metrics, gRPC MetricsService/Export ─▶ src/http/discard.ts ─▶ 200, every data point rejected
 *   POST /v1/traces (and aliases) ─┬▶ src/http/ingest.ts ─▶ pipeline ─▶ 200, in the request's encoding
 *   gRPC TraceService/Export      ─┤                                 └▶ OK
 *   POST /v1/logs (and aliases)   ─┤  src/model/otlp/log-request.ts makes spans of events
 *   gRPC LogsService/Export       ─┘
 */
export function createReceiver(
  settings: Settings,
  { protocols: { http, grpc }, project }: OtlpConfig,
  pipeline: Pipeline,
): Receiver {
  const fallback = projectTenant(project);
  const transports: Receiver[] = [];
  if (http !== undefined) transports.push(overHttp(settings, http, pipeline, fallback));
  if (grpc !== undefined) transports.push(overGrpc(settings, grpc, pipeline, fallback));
  return {
    async start() {
      for (const transport of transports) await transport.start();
    },
    async shutdown(deadline) {
      await Promise.all(transports.map((transport) => transport.shutdown(deadline)));
    },
  };
}

type Protocols = OtlpConfig['protocols'];

function overHttp(
  settings: Settings,
  config: NonNullable<Protocols['http']>,
  pipeline: Pipeline,
  fallback: Tenant | undefined,
): Receiver {
  const protocol = otlpProtocol(config.max_spans_per_request);
  const logs = {
    ...protocol,
    ...logsProtocol(settings, config.max_log_records_per_request, answerType),
  };
  const metrics = metricsProtocol(settings, checkHttpHead, answerType);
  return httpReceiver(settings, {
    endpoint: config.endpoint,
    listener: config,
    pipeline,
    fallback,
    ingestRoutes: [
      ...PATHS.map((path) => ({ method: 'POST', path, protocol })),
      ...ALIASES.map((path) => ({ method: 'POST', path, protocol, hidden: true })),
      ...[...PATHS, ...ALIASES].map(forLogs).map((path) => ({
        ...{ method: 'POST', path, protocol: logs },
        // One path is listed; the others are for clients that know this service only.
        hidden: path !== LOGS_PATH,
      })),
    ],
    discardRoutes: [...PATHS, ...ALIASES].map((path) => ({
      ...{ path: path.replace('traces', 'metrics'), protocol: metrics },
      renderRefusal: renderOtlpRefusal,
    })),
  });
}

function forLogs(path: string): string {
  return path.replace('traces', 'logs');
}

function overGrpc(
  settings: Settings,
  config: NonNullable<Protocols['grpc']>,
  pipeline: Pipeline,
  fallback: Tenant | undefined,
): Receiver {
  const maxBytes = config.max_recv_msg_size_mib * MIB;
  const metrics = metricsProtocol(settings, checkGrpcHead, () => GRPC_ANSWER_TYPE);
  const protocol = otlpGrpcProtocol(config.max_spans_per_request, maxBytes);
  const logs = {
    ...protocol,
    ...logsProtocol(settings, config.max_log_records_per_request, () => GRPC_ANSWER_TYPE),
  };
  return grpcReceiver(settings, {
    endpoint: config.endpoint,
    listener: config,
    path: EXPORT_PATH,
    protocol,
    otherMethods: [
      {
        path: LOGS_EXPORT_PATH,
        handle: (incoming, shared) => ingest(incoming, { ...shared, protocol: logs }),
      },
      {
        path: METRICS_EXPORT_PATH,
        handle: (incoming, shared) => discardRequest(incoming, shared, metrics),
      },
    ],
    pipeline,
    fallback,
  });
}
