import { z } from 'zod';

export const config = z.strictObject({
  verbosity: z
    .enum(['basic', 'normal', 'detailed'])
    .default('basic')
    .describe(
      'basic: a line for each batch; normal: a line for each item too; detailed: its payload as well.',
    ),
  sampling_initial: z
    .int()
    .min(0)
    .default(2)
    .describe('Batches written in full each second before sampling begins.'),
  sampling_thereafter: z
    .int()
    .min(0)
    .default(1)
    .describe('After these every n-th batch of the second is written; 1 writes all, 0 none.'),
});
export type DebugConfig = z.output<typeof config>;
