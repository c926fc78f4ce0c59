import { z } from 'zod';
import { byteSize } from '../../src/schema/fields.ts';

export const config = z.strictObject({
  directory: z
    .string()
    .min(1)
    .default('./data')
    .describe('Where the queues are kept; one daemon may own it.'),
  create_directory: z
    .boolean()
    .default(true)
    .describe('Make the directory, with mode 0700, where it is missing.'),
  min_free_bytes: byteSize('64MiB').describe(
    'Below this much free disk space nothing more is accepted (503), until there is more again.',
  ),
  reserve_bytes: byteSize('16MiB').describe(
    'Kept in a file of its own and given up when the disk is full, because SQLite needs room even to delete.',
  ),
});

export type FileStorageConfig = z.output<typeof config>;
