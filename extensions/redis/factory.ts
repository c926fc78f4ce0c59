import { defineExtension } from '../../src/component/factory.ts';
import { REDIS } from '../../src/redis/redis.ts';
import { config } from './config.ts';

export const factory = defineExtension({
  kind: 'extension',
  type: 'redis',
  stability: 'beta',
  description: 'A connection to Redis, for queues and counters that replicas share',
  config,
  provides: [REDIS],
  create: async (...given) => (await import('./extension.ts')).createExtension(...given),
});
