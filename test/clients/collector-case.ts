import type { ClientCase } from './client-case.ts';
import { openTelemetryTrace } from './plot.ts';

/** The program of OpenTelemetry's page behind a Collector, which `npm run test:interop` builds and runs. */
export const COLLECTOR_CASE: ClientCase = {
  client: 'OpenTelemetry Collector',
  page: 'opentelemetry-collector',
  programPage: 'opentelemetry',
  section: 'javascript',
  list: 'npm',
  packages: ['otelcol', '@opentelemetry/sdk-node'],
  protocol: 'OTLP over HTTP, protobuf',
  calls: [],
  traces: [openTelemetryTrace('TypeError')],
};
