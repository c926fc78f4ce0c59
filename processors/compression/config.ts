import { z } from 'zod';
import { byteSize } from '../../src/schema/fields.ts';

export const config = z.strictObject({
  min_bytes: byteSize('16KiB').describe(
    'A smaller body stays as it is: compressing it costs more CPU than writing it.',
  ),
  level: z
    .int()
    .min(1)
    .max(9)
    .default(1)
    .describe('Level of zstd. A higher one saves few bytes of traces and costs much more CPU.'),
});

export type CompressionConfig = z.output<typeof config>;
