import { defineReceiver } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createReceiver } from './receiver.ts';

export const factory = defineReceiver({
  kind: 'receiver',
  type: 'bullmq',
  stability: 'beta',
  description: 'Takes the jobs of a BullMQ queue that gateways fill, and delivers their batches.',
  config,
  delivers: true,
  receivesEvents: true,
  create: createReceiver,
});
