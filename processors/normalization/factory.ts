import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'normalization',
  stability: 'beta',
  description: 'Turns events, runs and spans into observations, the one form that stores keep',
  config,
  data: { accepts: ['raw'], emits: 'observations' },
  create: async (settings) => (await import('./processor.ts')).createProcessor(settings),
});
