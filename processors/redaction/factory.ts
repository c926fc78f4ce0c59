import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'redaction',
  stability: 'beta',
  description: 'Masks, hashes or removes secrets and personal data before a batch is durable',
  config,
  data: { accepts: ['received'], emits: 'same' },
  create: async (...given) => (await import('./processor.ts')).createProcessor(...given),
});
