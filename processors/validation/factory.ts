import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'validation',
  stability: 'beta',
  description: 'Checks the fields, ids, times and sizes of every event, and rejects invalid ones',
  config,
  data: { accepts: ['received'], emits: 'same' },
  create: async (settings) => (await import('./processor.ts')).createProcessor(settings),
});
