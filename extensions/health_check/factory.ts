import { defineExtension } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'health_check',
  stability: 'beta',
  description: 'Serves the liveness and readiness of the service over HTTP',
  config,
  provides: [],
  placement: { runsIn: 'supervisor' },
  create: async (...given) => (await import('./extension.ts')).createExtension(...given),
});
