import { defineExtension } from '../../src/component/component.ts';
import { healthCheckConfig } from './config.ts';
import { createHealthCheck } from './extension.ts';

export const healthCheck = defineExtension({
  kind: 'extension',
  type: 'health_check',
  stability: 'beta',
  description: 'Answers over HTTP whether the service lives and is ready',
  config: healthCheckConfig,
  provides: [],
  runsIn: 'watcher',
  create: createHealthCheck,
});
