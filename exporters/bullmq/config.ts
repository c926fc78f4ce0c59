import { z } from 'zod';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { REDIS } from '../../src/redis/redis.ts';
import { byteSize, duration, ref } from '../../src/schema/fields.ts';

export const config = z.strictObject({
  redis: ref(REDIS).describe('The `redis` extension whose Redis holds the jobs.'),
  queue: z
    .string()
    .regex(/^[\w.-]{1,100}$/, 'expected 1 to 100 letters, digits, ".", "_" or "-"')
    .default('traces')
    .describe('Name of the queue, the same as in the receivers of the workers.'),
  store: ref(SHARED_QUEUES)
    .optional()
    .describe(
      'The store for the payloads, which are committed before the answer; a job in Redis is a pointer. ' +
        'Without a store the job holds the payload, and Redis has the only copy.',
    ),
  answer_timeout: duration('1500ms')
    .refine((ms) => ms >= 100 && ms <= 60_000, { error: 'expected 100ms to 60s' })
    .describe(
      'Total time that a request may wait for its key, its limits and this queue. Then it is answered with ' +
        '503, whatever the state of Postgres and Redis.',
    ),
  max_bytes: byteSize('10GiB').describe(
    'Limit of the bodies that wait in the store. At the limit new requests are refused (503).',
  ),
  step_timeout: duration('45s')
    .refine((ms) => ms >= 1000, { error: 'expected at least 1s' })
    .describe(
      'Longest wait for one answer of Redis or the store, outside requests. A step that exceeds it is logged with its name and retried.',
    ),
  sweep_interval: duration('5s').describe(
    'Interval of the search for batches in the store whose job is missing from Redis.',
  ),
});

export type BullmqExporterConfig = z.output<typeof config>;
