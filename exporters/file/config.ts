import { z } from 'zod';

export const config = z.strictObject({
  path: z
    .string({ error: 'expected the path of the file to write, such as ./data/traces.jsonl' })
    .min(1)
    .refine((path) => !path.includes('\0'), { error: 'a path holds no NUL' })
    .describe('File to append to; relative to the working directory.'),
  format: z
    .enum(['json', 'otlp_json'])
    .optional()
    .describe(
      'json: one observation event a line, with its raw event id. otlp_json: one batch a line, as in the files of the Collector. Left out: json for observations, otlp_json for what was received.',
    ),
  compression: z
    .enum(['none', 'zstd'])
    .default('none')
    .describe('zstd: every write is a complete frame, so that the file is readable at any time.'),
  create_directory: z
    .boolean()
    .default(true)
    .describe('Create missing parent directories, readable by this user alone.'),
  fsync: z.boolean().default(true).describe('Sync to disk before a batch counts as delivered.'),
  rotation: z
    .strictObject({
      max_megabytes: z
        .number()
        .positive()
        .default(100)
        .describe('The file is renamed before it would grow beyond this many MiB.'),
      max_days: z
        .int()
        .min(0)
        .default(0)
        .describe('Renamed files are deleted after this many days; 0 keeps them.'),
      max_backups: z
        .int()
        .min(0)
        .default(100)
        .describe('At most this many renamed files are kept; 0 keeps all.'),
    })
    .optional()
    .describe('Without it the file grows without end.'),
});
export type FileConfig = z.output<typeof config>;
