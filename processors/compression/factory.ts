import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'compression',
  stability: 'beta',
  description:
    'Compresses the bodies of requests that arrive without compression, before they are stored',
  config,
  data: { accepts: ['received'], emits: 'same' },
  create: async (_settings, config) => (await import('./processor.ts')).createProcessor(config),
});
