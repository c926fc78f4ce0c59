import { defineReceiver } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineReceiver({
  kind: 'receiver',
  type: 'otlp',
  stability: 'beta',
  description:
    'OpenTelemetry traces, and logs about LLM calls, over HTTP (protobuf or JSON) and gRPC',
  config,
  tenancy: { hasProject: true },
  create: async (...given) => (await import('./receiver.ts')).createReceiver(...given),
});
