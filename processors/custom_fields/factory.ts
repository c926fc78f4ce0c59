import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'custom_fields',
  stability: 'beta',
  description: 'Rejects events whose custom fields are neither an object nor null',
  config,
  data: { accepts: ['received'], emits: 'same' },
  create: async () => (await import('./processor.ts')).createProcessor(),
});
