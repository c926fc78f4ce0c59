import { defineReceiver } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineReceiver({
  kind: 'receiver',
  type: 'runs',
  stability: 'beta',
  description: "Runs from LangSmith's clients over HTTP, one by one or in batches of up to 1,000",
  config,
  data: { receivesEvents: true },
  tenancy: { hasProject: true },
  create: async (...given) => (await import('./receiver.ts')).createReceiver(...given),
});
