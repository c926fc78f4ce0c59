import { defineExtension } from '../../src/component/factory.ts';
import { config } from './config.ts';
import { createExtension } from './extension.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'sqlite',
  stability: 'beta',
  description: 'A store in one SQLite file: projects, keys, usage, queues, raw batches and traces',
  config,
  provides: ['store', 'queue_storage', 'usage_counters', 'bootstrap', 'data_directory'],
  dataDirectory: ({ directory }) => directory,
  placement: { oneProcess: () => 'the store in SQLite belongs to one process' },
  create: createExtension,
});
