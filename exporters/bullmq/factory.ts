import { defineExporter } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'bullmq',
  stability: 'beta',
  description:
    'A BullMQ queue in Redis, from gateways to workers; payloads in a store, or in the job',
  config,
  data: { accepts: ['raw'] },
  create: async (...given) => (await import('./exporter.ts')).createExporter(...given),
});
