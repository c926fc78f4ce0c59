import { z } from 'zod';
import { byteSize, duration } from '../../src/schema/fields.ts';
import { mark } from '../../src/schema/marks.ts';
import { payloadSearch } from '../../src/schema/payload-search.ts';
import { organization, plans } from '../../src/tenancy/plans.ts';
import { rejections } from '../../src/tenancy/rejections.ts';

export const config = z.strictObject({
  directory: mark(z.string().min(1), { owns: 'store' })
    .default('./data')
    .describe(
      'The data directory, created with mode 0700; the write permission of other users on an existing one is removed. One daemon owns it; a second daemon is refused with the pid of the first.',
    ),
  min_free_bytes: byteSize('64MiB').describe(
    'Requests are refused (503) while the disk has less free space than this.',
  ),
  reserve_bytes: byteSize('32MiB').describe(
    'Size of a reserve file that is released when the disk is full, because SQLite needs room even to delete.',
  ),
  plans: plans.describe('Limits of each plan. A new organization has the plan `scale`.'),
  organization: organization.describe(
    "Limits of this organization, each in place of its plan's limit.",
  ),
  stale_after: duration('24h').describe(
    'A trace without an end is `interrupted` instead of `running` if its newest time is older. An end that arrives later ends it.',
  ),
  search: payloadSearch,
  rejections,
});

export type SqliteConfig = z.output<typeof config>;
