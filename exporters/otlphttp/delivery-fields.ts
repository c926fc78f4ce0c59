import { z } from 'zod';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { duration, ref } from '../../src/schema/fields.ts';

/** Retry and queue of the exporter, with the Collector's names and defaults. */

/** What a failure that may pass is answered with: further tries, with growing waits. */
export function retryOnFailure() {
  return z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe('False: the first failure counts; without a queue the client is told.'),
      initial_interval: duration('5s').describe('Wait before the first retry.'),
      randomization_factor: z
        .number()
        .min(0, 'randomization_factor must be within [0, 1]')
        .max(1, 'randomization_factor must be within [0, 1]')
        .default(0.5)
        .describe('Share of a wait by which it is made shorter or longer at random.'),
      multiplier: z
        .number()
        .min(1, 'multiplier must be at least 1')
        .default(1.5)
        .describe('Each wait is longer than the one before by this factor.'),
      max_interval: duration('30s').describe('The longest wait between two tries.'),
      max_elapsed_time: duration()
        .optional()
        .describe(
          'How long a batch is tried; 0 for ever. Default: 0 with a queue in storage, else 300s.',
        ),
    })
    .superRefine((value, context) => {
      const limit = value.max_elapsed_time ?? 0;
      if (limit === 0) return;
      for (const field of ['initial_interval', 'max_interval'] as const) {
        if (limit >= value[field]) continue;
        context.addIssue({
          code: 'custom',
          path: ['max_elapsed_time'],
          message: `max_elapsed_time must not be less than ${field}`,
        });
      }
    });
}
export type RetryOnFailure = z.output<ReturnType<typeof retryOnFailure>>;

/** The queue in front of a destination. */
export function sendingQueue() {
  return z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe('False: no queue; the answer waits until the destination has the batch.'),
      storage: ref(QUEUE_STORAGE)
        .optional()
        .describe(
          'The extension that keeps the queue on disk. Without it there is none: nothing is acknowledged from memory.',
        ),
      queue_size: z
        .int()
        .positive('queue_size must be positive')
        .default(1000)
        .describe('How much may wait, in units of sizer. At the bound new requests are refused.'),
      sizer: z
        .enum(['requests', 'items', 'bytes'])
        .default('requests')
        .describe('What queue_size counts: requests, spans (or events), or bytes of bodies.'),
      num_consumers: z
        .int()
        .min(1, 'num_consumers must be positive')
        .max(1000)
        .default(10)
        .describe('Batches that are sent at the same time.'),
      block_on_overflow: z
        .boolean()
        .default(false)
        .describe('True: a full queue makes the client wait instead of refusing it.'),
      wait_for_result: z
        .boolean()
        .optional()
        .describe(
          "As the Collector's: true where there is no storage, because then the answer always waits for the destination; false with it.",
        ),
      batch: z
        .unknown()
        .optional()
        .describe("The Collector's; refused here, because requests leave as they came in."),
    })
    .superRefine((value, context) => {
      const refuse = (field: string, message: string) => {
        context.addIssue({ code: 'custom', path: [field], message });
      };
      if (!value.enabled && value.storage !== undefined) {
        refuse('storage', 'storage has no use in a sending_queue that is not enabled');
      }
      if (value.wait_for_result === true && value.storage !== undefined) {
        refuse(
          'wait_for_result',
          'with storage the answer comes when the batch is on disk; leave storage out to have it wait for the destination',
        );
      }
      if (value.wait_for_result === false && value.storage === undefined) {
        refuse(
          'wait_for_result',
          'without storage nothing is acknowledged from memory, so the answer waits; give storage to be answered before',
        );
      }
      if (value.batch !== undefined) {
        refuse(
          'batch',
          'requests leave as they came in, in the bytes they came in; let whoever sends them, or a Collector behind, make batches',
        );
      }
    });
}
export type SendingQueue = z.output<ReturnType<typeof sendingQueue>>;
