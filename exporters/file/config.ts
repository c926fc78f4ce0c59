import { z } from 'zod';
import { mark } from '../../src/schema/marks.ts';

export const config = z.strictObject({
  path: mark(
    z
      .string({ error: 'expected the path of the file to write, such as ./data/traces.jsonl' })
      .min(1)
      .refine((path) => !path.includes('\0'), { error: 'a path holds no NUL' }),
    { owns: 'file' },
  ).describe('File to append to, relative to the working directory.'),
  format: z
    .enum(['json', 'otlp_json'])
    .optional()
    .describe(
      '`json` writes one observation event per line, with its raw event id. `otlp_json` writes one batch per line, like the files of the Collector. Default: `json` for observations, `otlp_json` for raw batches.',
    ),
  compression: z
    .enum(['none', 'zstd'])
    .default('none')
    .describe('With `zstd` every write is a complete frame, so the file is readable at any time.'),
  create_directory: z
    .boolean()
    .default(true)
    .describe('Creates missing parent directories, readable only by this user.'),
  fsync: z
    .boolean()
    .default(true)
    .describe('Syncs the file to disk before a batch counts as delivered.'),
  rotation: z
    .strictObject({
      max_megabytes: z
        .number()
        .positive()
        .default(100)
        .describe('Size in MiB that the file never exceeds: it is renamed before.'),
      max_days: z
        .int()
        .min(0)
        .default(0)
        .describe('Renamed files are deleted after this many days; 0 keeps them.'),
      max_backups: z
        .int()
        .min(0)
        .default(100)
        .describe('Number of renamed files to keep; 0 keeps all.'),
    })
    .optional()
    .describe('Renames and deletes files. Without it the file grows without a limit.'),
});

export type FileConfig = z.output<typeof config>;
