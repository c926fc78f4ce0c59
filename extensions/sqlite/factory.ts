import { defineExtension } from '../../src/component/factory.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { DATA_DIRECTORY } from '../../src/store/data-directory.ts';
import { SALVAGE } from '../../src/store/salvage.ts';
import { STORE } from '../../src/store/store.ts';
import { BOOTSTRAP } from '../../src/tenancy/bootstrap.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import { config } from './config.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'sqlite',
  stability: 'beta',
  description: 'A store in one SQLite file: projects, keys, usage, queues, raw batches and traces',
  config,
  provides: [STORE, QUEUE_STORAGE, USAGE_COUNTERS, BOOTSTRAP, DATA_DIRECTORY, SALVAGE],
  dataDirectory: ({ directory }) => directory,
  placement: { oneProcess: () => 'the store in SQLite belongs to one process' },
  create: async (...given) => (await import('./extension.ts')).createExtension(...given),
});
