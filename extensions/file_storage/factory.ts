import { defineExtension } from '../../src/component/factory.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { SALVAGE } from '../../src/store/salvage.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import { config } from './config.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'file_storage',
  stability: 'beta',
  description: 'A directory that keeps queues: an entry is on disk until it is delivered',
  config,
  provides: [QUEUE_STORAGE, USAGE_COUNTERS, SALVAGE],
  dataDirectory: ({ directory }) => directory,
  create: async (...given) => (await import('./extension.ts')).createExtension(...given),
});
