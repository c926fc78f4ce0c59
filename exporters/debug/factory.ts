import { defineExporter } from '../../src/component/component.ts';
import { debugConfig } from './config.ts';
import { createDebugExporter } from './exporter.ts';

export const debug = defineExporter({
  kind: 'exporter',
  type: 'debug',
  stability: 'beta',
  description: 'Writes what passes to the log, for looking at a pipeline while building it',
  accepts: ['raw', 'observations'],
  config: debugConfig,
  create: createDebugExporter,
});
