import { defineConnector } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineConnector({
  kind: 'connector',
  type: 'disk_queue',
  stability: 'beta',
  description: 'A durable queue between pipelines: accepted means synced to disk',
  config,
  data: { accepts: ['raw'], emits: 'same' },
  create: async (...given) => (await import('./connector.ts')).createConnector(...given),
});
