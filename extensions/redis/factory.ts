import { defineExtension } from '../../src/component/component.ts';
import { config } from './config.ts';
import { redisExtension } from './extension.ts';

export const redis = defineExtension({
  kind: 'extension',
  type: 'redis',
  stability: 'beta',
  description: 'A connection to Redis, for queues and counters that replicas share.',
  config,
  provides: ['redis'],
  create: redisExtension,
});
