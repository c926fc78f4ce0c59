import { defineExporter } from '../../src/component/factory.ts';
import { config } from './config.ts';
import { createExporter } from './exporter.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'sqlite',
  stability: 'beta',
  description: 'Writes observations into a store in SQLite',
  config,
  data: { accepts: ['observations'] },
  create: createExporter,
});
