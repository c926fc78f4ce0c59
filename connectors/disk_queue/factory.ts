import { defineConnector } from '../../src/component/component.ts';
import { config } from './config.ts';
import { diskQueue as createDiskQueue } from './connector.ts';

export const diskQueue = defineConnector({
  kind: 'connector',
  type: 'disk_queue',
  stability: 'beta',
  description: 'A durable queue between pipelines: accepted means synced to disk.',
  config,
  accepts: ['raw'],
  emits: 'same',
  create: createDiskQueue,
});
