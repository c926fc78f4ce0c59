import type { ComponentKind } from '../component/component.ts';

/** Common types of the OpenTelemetry Collector that a configuration written for it may name, and that are none here. */
const COLLECTOR_TYPES: Readonly<Record<ComponentKind, readonly string[]>> = {
  receiver: ['jaeger', 'zipkin', 'kafka', 'prometheus', 'filelog', 'hostmetrics', 'otlpjsonfile'],
  processor: [
    ...['batch', 'memory_limiter', 'attributes', 'resource', 'transform', 'resourcedetection'],
    ...['probabilistic_sampler', 'tail_sampling', 'k8sattributes', 'span', 'groupbytrace'],
    ...['groupbyattrs', 'cumulativetodelta', 'metricstransform'],
  ],
  connector: ['forward', 'routing', 'spanmetrics', 'servicegraph', 'count', 'failover'],
  exporter: [
    ...['otlp', 'otlp_grpc', 'logging', 'kafka', 'zipkin', 'jaeger', 'prometheus'],
    ...['prometheusremotewrite', 'loadbalancing', 'clickhouse', 'datadog', 'awsxray'],
  ],
  extension: [
    ...['pprof', 'zpages', 'basicauth', 'bearertokenauth', 'headers_setter', 'oidc'],
    ...['memory_limiter', 'opamp', 'db_storage', 'redis_storage'],
  ],
};

/** `; …`, a hint for a type of the Collector's, or nothing. */
export function collectorHint(kind: ComponentKind, type: string): string {
  return COLLECTOR_TYPES[kind].includes(type)
    ? '; it is a type of the OpenTelemetry Collector, see docs/with-the-opentelemetry-collector.md#instead-of-a-collector'
    : '';
}
