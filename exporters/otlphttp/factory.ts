import { defineExporter } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createExporter } from './exporter.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'otlphttp',
  aliases: ['otlp_http'],
  stability: 'beta',
  description: 'Sends spans to an OpenTelemetry server over HTTP, through a queue on disk',
  accepts: ['raw', 'observations'],
  config,
  // Without a queue nothing is held, nor where a start leaves at once.
  joinsEvents: ({ sending_queue: { enabled, storage }, open_span_timeout }) =>
    enabled && storage !== undefined && open_span_timeout > 0,
  // Without a header there is no key that they would share.
  mixesProjects: ({ headers, allow_multiple_projects }) =>
    allow_multiple_projects || Object.keys(headers).length === 0
      ? undefined
      : 'allow_multiple_projects',
  create: createExporter,
});
