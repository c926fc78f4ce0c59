import { z } from 'zod';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { REDIS } from '../../src/redis/redis.ts';
import { duration, ref } from '../../src/schema/fields.ts';

export const config = z.strictObject({
  redis: ref(REDIS).describe('The `redis` extension whose Redis holds the jobs.'),
  queue: z
    .string()
    .regex(/^[\w.-]{1,100}$/, 'expected 1 to 100 letters, digits, ".", "_" or "-"')
    .default('traces')
    .describe('Name of the queue, as the gateways have it.'),
  store: ref(SHARED_QUEUES)
    .optional()
    .describe('The store where gateways put the payloads; named here where it is named there.'),
  concurrency: z
    .int()
    .min(1)
    .max(1000)
    .default(8)
    .describe('Jobs that are worked on at the same time, and batches for each exporter.'),
  initial_interval: duration('1s').describe(
    'Wait before the first retry; then twice as long each.',
  ),
  max_interval: duration('30s').describe('The longest wait between two tries. They never end.'),
  lock_duration: duration('20s')
    .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
    .describe('After this without a sign of its worker a job is given to another one.'),
  stall_timeout: duration('60s')
    .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
    .describe('When jobs wait and none was begun for this long, the worker is made anew.'),
});

export type BullmqReceiverConfig = z.output<typeof config>;
