import { z } from 'zod';
import { byteSize } from '../../src/schema/fields.ts';
import { organization, plans } from '../../src/tenancy/plans.ts';
import { rejections } from '../../src/tenancy/rejections.ts';

export const config = z.strictObject({
  directory: z
    .string()
    .min(1)
    .default('./data')
    .describe(
      'The data directory; one daemon may own it. Made with mode 0700 where it is missing.',
    ),
  min_free_bytes: byteSize('64MiB').describe(
    'Below this much free disk space nothing more is accepted (503), until there is more again.',
  ),
  reserve_bytes: byteSize('16MiB').describe(
    'Kept in a file of its own and given up when the disk is full, because SQLite needs room even to delete.',
  ),
  plans: plans.describe('What each plan allows. An organization starts on `scale`.'),
  organization: organization.describe(
    "This organization's own limits, each in place of its plan's.",
  ),
  rejections,
});

export type SqliteConfig = z.output<typeof config>;
