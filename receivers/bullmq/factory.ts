import { defineReceiver } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineReceiver({
  kind: 'receiver',
  type: 'bullmq',
  stability: 'beta',
  description: 'Takes jobs from a BullMQ queue that gateways fill, and delivers their batches',
  config,
  data: { deliversToEach: true, receivesEvents: true },
  create: async (...given) => (await import('./receiver.ts')).createReceiver(...given),
});
