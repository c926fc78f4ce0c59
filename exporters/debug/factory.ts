import { defineExporter } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createExporter } from './exporter.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'debug',
  stability: 'beta',
  description: 'Writes what passes to the log, for looking at a pipeline while building it',
  accepts: ['raw', 'observations'],
  config,
  create: createExporter,
});
