import { defineExporter } from '../../src/component/component.ts';
import { config } from './config.ts';
import { postgresExporter } from './exporter.ts';

export const postgres = defineExporter({
  kind: 'exporter',
  type: 'postgres',
  stability: 'beta',
  description: 'Writes observations into a store in Postgres.',
  config,
  accepts: ['observations'],
  create: postgresExporter,
});
