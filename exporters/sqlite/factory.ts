import { defineExporter } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createExporter } from './exporter.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'sqlite',
  stability: 'beta',
  description: 'Writes observations into a store in SQLite.',
  config,
  accepts: ['observations'],
  create: createExporter,
});
