import { defineExporter } from '../../src/component/component.ts';
import { fileConfig } from './config.ts';
import { createFileExporter } from './exporter.ts';

export const file = defineExporter({
  kind: 'exporter',
  type: 'file',
  stability: 'beta',
  description:
    'Appends observations, or traces as they were received, to a file as JSON lines, with rotation and compression',
  accepts: ['observations', 'raw'],
  acceptsAs: ({ format }) => (format === 'json' ? ['observations'] : ['observations', 'raw']),
  config: fileConfig,
  oneProcess: () => 'one process writes a file, and renames it',
  create: createFileExporter,
});
