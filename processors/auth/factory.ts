import { defineProcessor } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'auth',
  stability: 'beta',
  description: 'Names the project of a request by its API key, before the body is read',
  config,
  data: { accepts: ['received'], emits: 'same' },
  tenancy: {
    authenticates: true,
    projects: ({ keys }) => keys?.map(({ project }) => project) ?? 'any',
  },
  create: async (...given) => (await import('./processor.ts')).createProcessor(...given),
});
