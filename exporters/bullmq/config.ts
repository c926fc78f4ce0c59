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
    .describe('Name of the queue; workers name the same.'),
  store: ref(SHARED_QUEUES)
    .optional()
    .describe(
      'The store that keeps the payload: committed there before the answer, a job in Redis is a pointer. ' +
        'Without it the payload travels in the job, and Redis is all there is of it.',
    ),
  answer_timeout: duration('1500ms')
    .refine((ms) => ms >= 100 && ms <= 60_000, { error: 'expected 100ms to 60s' })
    .describe(
      'How long a request may wait for its key, its limits and this queue, all in all. Then its client is ' +
        'told to try again (503), whatever Postgres and Redis do.',
    ),
  max_bytes: byteSize('10GiB').describe(
    'Bodies that may wait in the store. At the bound new requests are refused (503).',
  ),
  sweep_interval: duration('5s').describe(
    'How often batches in the store are looked for whose job Redis has lost.',
  ),
});

export type BullmqExporterConfig = z.output<typeof config>;
