import { defineExporter } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'debug',
  stability: 'beta',
  description: 'Writes passing batches to the log, for work on a new pipeline',
  config,
  data: { accepts: ['raw', 'observations'] },
  create: async (...given) => (await import('./exporter.ts')).createExporter(...given),
});
