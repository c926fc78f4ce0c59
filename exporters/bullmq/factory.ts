import { defineExporter } from '../../src/component/component.ts';
import { config } from './config.ts';
import { createExporter } from './exporter.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'bullmq',
  stability: 'beta',
  description:
    'A queue of BullMQ on Redis, from gateways to workers; payloads in a store, or in the job.',
  config,
  accepts: ['raw'],
  create: createExporter,
});
