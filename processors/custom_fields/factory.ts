import { defineProcessor } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createProcessor } from './processor.ts';

export const factory = defineProcessor({
  kind: 'processor',
  type: 'custom_fields',
  stability: 'beta',
  description: 'Rejects events whose custom fields are anything but an object or null.',
  config,
  accepts: ['raw'],
  emits: 'same',
  rejects: true,
  create: createProcessor,
});
