import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { httpReceiver, projectTenant } from '../../src/http/receiver.ts';
import { registerReadRoutes } from '../../src/read/routes.ts';
import type { OtlpConfig } from './config.ts';
import { otlpProtocol } from './protocol.ts';

/**
 * The service's own path, the one that collectors append, and the one that LangSmith's clients use in
 * their OpenTelemetry mode.
 */
const PATHS = ['/api/public/otel/v1/traces', '/v1/traces', '/api/v1/otel/v1/traces'];

/**
 *   POST /v1/traces (and aliases) ─▶ src/http/ingest.ts ─▶ pipeline ─▶ 200, in the request's encoding
 */
export function createOtlpReceiver(
  settings: Settings,
  config: OtlpConfig,
  pipeline: Pipeline,
): Receiver {
  const fallback = projectTenant(config.project);
  const { http } = config.protocols;
  const protocol = otlpProtocol(http.max_spans_per_request);
  return httpReceiver(settings, {
    endpoint: http.endpoint,
    listener: http,
    pipeline,
    fallback,
    register(listener, serve) {
      for (const path of PATHS) {
        listener.route(serve({ method: 'POST', path, protocol }));
        const alias = serve({ method: 'POST', path: `${path}/`, protocol });
        listener.route({ ...alias, hidden: true });
      }
      registerReadRoutes(listener, settings, pipeline, fallback);
    },
  });
}
