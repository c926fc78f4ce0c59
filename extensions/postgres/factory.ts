import { defineExtension } from '../../src/component/factory.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { STORE } from '../../src/store/store.ts';
import { BOOTSTRAP } from '../../src/tenancy/bootstrap.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import { SHARED_LEDGER } from '../../src/tenancy/shared-ledger.ts';
import { config } from './config.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'postgres',
  stability: 'beta',
  description: 'A store in Postgres, which any number of processes share',
  config,
  provides: [STORE, QUEUE_STORAGE, SHARED_QUEUES, USAGE_COUNTERS, SHARED_LEDGER, BOOTSTRAP],
  create: async (...given) => (await import('./extension.ts')).createExtension(...given),
});
