import { z } from 'zod';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { REDIS } from '../../src/redis/redis.ts';
import { duration, ref } from '../../src/schema/fields.ts';

export const config = z
  .strictObject({
    redis: ref(REDIS).describe('The `redis` extension whose Redis holds the jobs.'),
    queue: z
      .string()
      .regex(/^[\w.-]{1,100}$/, 'expected 1 to 100 letters, digits, ".", "_" or "-"')
      .default('traces')
      .describe('Name of the queue, the same as in the exporters of the gateways.'),
    store: ref(SHARED_QUEUES)
      .optional()
      .describe('The store with the payloads. Set it if the exporters of the gateways set it.'),
    concurrency: z
      .int()
      .min(1)
      .max(1000)
      .default(8)
      .describe(
        'Jobs in work at the same time, and in delivery to each exporter. With `store` a job is one batch, or up to 64 small ones, which are delivered at the same time.',
      ),
    initial_interval: duration('1s').describe(
      'Wait before the first retry. Each further wait is twice as long.',
    ),
    max_interval: duration('30s').describe(
      'Longest wait between two attempts, with `store` an hour at most. Their number is not limited.',
    ),
    lock_duration: duration('20s')
      .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
      .describe('A job whose worker does not renew its lock for this long goes to another worker.'),
    stall_timeout: duration('60s')
      .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
      .describe('The worker is replaced if jobs wait and it starts none for this long.'),
    step_timeout: duration('45s')
      .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
      .describe(
        'Longest wait of a job for room, the store or Redis. A step that exceeds it is logged with its name, and the job or delivery is retried. Keep it above `group_timeout` of the store.',
      ),
    delivery_timeout: duration('10m')
      .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
      .describe(
        'Longest attempt to deliver a batch to an exporter; then the attempt is abandoned and retried. Keep it above the time-outs and retries of the exporters.',
      ),
    progress_timeout: duration('2m')
      .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
      .describe(
        'The process ends with status 75, to be started again, if jobs or deliveries are in flight and for this long no batch was taken, no delivery and no job ended. During a delivery, `delivery_timeout` counts if it is longer.',
      ),
  })
  .refine(({ progress_timeout, step_timeout }) => progress_timeout > step_timeout, {
    path: ['progress_timeout'],
    error: 'expected more than `step_timeout`',
  });

export type BullmqReceiverConfig = z.output<typeof config>;
