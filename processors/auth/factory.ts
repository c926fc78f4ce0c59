import { defineProcessor } from '../../src/component/component.ts';
import { authConfig } from './config.ts';
import { createAuthProcessor } from './processor.ts';

export const auth = defineProcessor({
  kind: 'processor',
  type: 'auth',
  stability: 'beta',
  description: 'Names the project of a request by its API key, before a byte of its body is read',
  config: authConfig,
  accepts: ['raw'],
  emits: 'same',
  authenticates: true,
  projects: ({ keys }) => keys?.map(({ project }) => project) ?? 'any',
  create: createAuthProcessor,
});
