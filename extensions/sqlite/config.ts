import { z } from 'zod';
import { byteSize, duration } from '../../src/config/schema.ts';
import { organization, plans } from './plans.ts';

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
  rejections: z
    .strictObject({
      max_entries: z.int().min(0).default(10_000).describe('Lines kept for each project.'),
      max_age: duration('720h').describe('How long a line is kept.'),
    })
    .prefault({})
    .describe('The log of what was refused, without payloads.'),
});

export type SqliteConfig = z.output<typeof config>;
