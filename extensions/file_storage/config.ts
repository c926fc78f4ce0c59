import { z } from 'zod';
import { byteSize } from '../../src/schema/fields.ts';
import { mark } from '../../src/schema/marks.ts';

export const config = z.strictObject({
  directory: mark(z.string().min(1), { owns: 'queues' })
    .default('./data')
    .describe(
      'Directory of the queues; the write permission of other users on an existing one is removed. One daemon owns it; a second daemon is refused with the pid of the first.',
    ),
  create_directory: z
    .boolean()
    .default(true)
    .describe('Creates a missing directory, with mode 0700.'),
  min_free_bytes: byteSize('64MiB').describe(
    'Requests are refused (503) while the disk has less free space than this.',
  ),
  reserve_bytes: byteSize('32MiB').describe(
    'Size of a reserve file that is released when the disk is full, because SQLite needs room even to delete.',
  ),
});

export type FileStorageConfig = z.output<typeof config>;
