import { defineProcessor } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createProcessor } from './processor.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'auth',
  stability: 'beta',
  description: 'Names the project of a request by its API key, before a byte of its body is read',
  config,
  accepts: ['raw'],
  emits: 'same',
  authenticates: true,
  projects: ({ keys }) => keys?.map(({ project }) => project) ?? 'any',
  create: createProcessor,
});
