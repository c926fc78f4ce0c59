import { defineReceiver } from '../../src/component/component.ts';
import { otlpConfig } from './config.ts';
import { createOtlpReceiver } from './receiver.ts';

export const otlp = defineReceiver({
  kind: 'receiver',
  type: 'otlp',
  stability: 'beta',
  description: 'OpenTelemetry traces over HTTP (protobuf or JSON) and gRPC',
  config: otlpConfig,
  hasProject: true,
  create: createOtlpReceiver,
});
