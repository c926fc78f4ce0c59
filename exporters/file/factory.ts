import { defineExporter } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = defineExporter({
  kind: 'exporter',
  type: 'file',
  stability: 'beta',
  description:
    'Appends observations, or traces as they were received, to a file as JSON lines, with rotation and compression',
  config,
  data: {
    accepts: ['observations', 'raw'],
    acceptsAs: ({ format }) => (format === 'json' ? ['observations'] : ['observations', 'raw']),
  },
  placement: { oneProcess: () => 'one process writes a file, and renames it' },
  create: async (...given) => (await import('./exporter.ts')).createExporter(...given),
});
