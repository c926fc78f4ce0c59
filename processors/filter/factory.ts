import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'filter',
  stability: 'beta',
  description: 'Drops observations by name, kind, status, scope and attributes',
  config,
  data: { accepts: ['received'], emits: 'same' },
  create: async (...given) => (await import('./processor.ts')).createProcessor(...given),
});
