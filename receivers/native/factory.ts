import { defineReceiver } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineReceiver({
  kind: 'receiver',
  type: 'native',
  stability: 'beta',
  description: 'Native observation events over HTTP, in batches of up to 1,000',
  config,
  data: { receivesEvents: true },
  tenancy: { hasProject: true },
  create: async (...given) => (await import('./receiver.ts')).createReceiver(...given),
});
