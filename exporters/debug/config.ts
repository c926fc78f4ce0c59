import { z } from 'zod';

export const config = z.strictObject({
  verbosity: z
    .enum(['basic', 'normal', 'detailed'])
    .default('basic')
    .describe(
      '`basic` logs a line per batch, `normal` also a line per item, `detailed` also its payload.',
    ),
  sampling_initial: z
    .int()
    .min(0)
    .default(2)
    .describe('Batches that are logged in full each second, before sampling begins.'),
  sampling_thereafter: z
    .int()
    .min(0)
    .default(1)
    .describe('Every n-th batch after them is logged; 1 logs all, 0 none.'),
});

export type DebugConfig = z.output<typeof config>;
