import { defineExporter } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'otlphttp',
  aliases: ['otlp_http'],
  stability: 'beta',
  description: 'Sends spans to an OpenTelemetry server over HTTP, through a queue on disk',
  config,
  data: {
    accepts: ['raw', 'observations'],
    // Without a durable queue, or with a timeout of 0, a start is sent at once: the exporter holds no events.
    joinsEvents: ({ sending_queue: { enabled, storage }, open_span_timeout }) =>
      enabled && storage !== undefined && open_span_timeout > 0,
  },
  tenancy: {
    // Without a header the projects share no key at the destination.
    mixesProjects: ({ headers, allow_multiple_projects }) =>
      allow_multiple_projects || Object.keys(headers).length === 0
        ? undefined
        : 'allow_multiple_projects',
  },
  create: async (...given) => (await import('./exporter.ts')).createExporter(...given),
});
