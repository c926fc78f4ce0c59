import { defineExtension } from '../../src/component/component.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { config } from './config.ts';
import { postgresExtension } from './extension.ts';

export const postgres = defineExtension({
  kind: 'extension',
  type: 'postgres',
  stability: 'alpha',
  description: 'Queues in Postgres, which any number of processes share.',
  config,
  provides: [QUEUE_STORAGE.name, SHARED_QUEUES.name],
  create: postgresExtension,
});
