import { defineExporter } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'sqlite',
  stability: 'beta',
  description: 'Writes observations into a store in SQLite',
  config,
  data: { accepts: ['observations'] },
  create: async (...given) => (await import('./exporter.ts')).createExporter(...given),
});
