import { defineExtension } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createExtension } from './extension.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'health_check',
  stability: 'beta',
  description: 'Answers over HTTP whether the service lives and is ready',
  config,
  provides: [],
  runsIn: 'watcher',
  create: createExtension,
});
