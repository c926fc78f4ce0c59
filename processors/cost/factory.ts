import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'cost',
  stability: 'beta',
  description: 'Computes the cost of model calls from their tokens and dated prices',
  config,
  data: { accepts: ['observations'], emits: 'same' },
  create: async (...given) => (await import('./processor.ts')).createProcessor(...given),
});
