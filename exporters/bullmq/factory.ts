import { defineExporter } from '../../src/component/factory.ts';
import { config } from './config.ts';
import { createExporter } from './exporter.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'bullmq',
  stability: 'beta',
  description:
    'A BullMQ queue in Redis, from gateways to workers; payloads in a store, or in the job',
  config,
  data: { accepts: ['raw'] },
  create: createExporter,
});
