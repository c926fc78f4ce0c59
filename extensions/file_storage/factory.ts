import { defineExtension } from '../../src/component/factory.ts';
import { config } from './config.ts';
import { createExtension } from './extension.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'file_storage',
  stability: 'beta',
  description: 'A directory that keeps queues: an entry is on disk until it is delivered',
  config,
  provides: ['queue_storage', 'usage_counters'],
  dataDirectory: ({ directory }) => directory,
  create: createExtension,
});
