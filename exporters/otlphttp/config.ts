import { z } from 'zod';
import { clientFields } from '../../src/otlp-client/config.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { duration, ref } from '../../src/schema/fields.ts';

/** Retries after failures that may pass, with the Collector's names and defaults. */
const retryOnFailure = z
  .strictObject({
    enabled: z
      .boolean()
      .default(true)
      .describe('False: a failure is not retried; without a queue the client gets it as an error.'),
    initial_interval: duration('5s').describe('Wait before the first retry.'),
    randomization_factor: z
      .number()
      .min(0, 'randomization_factor must be within [0, 1]')
      .max(1, 'randomization_factor must be within [0, 1]')
      .default(0.5)
      .describe('Share of a wait by which it is shorter or longer at random.'),
    multiplier: z
      .number()
      .min(1, 'multiplier must be at least 1')
      .default(1.5)
      .describe('Each wait is longer than the previous one by this factor.'),
    max_interval: duration('30s').describe('The longest wait between two attempts.'),
    max_elapsed_time: duration()
      .optional()
      .describe(
        'How long a batch is retried; 0 is no limit. Default: 0 with a queue in storage, else 300s.',
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

/** The queue in front of the destination, with the Collector's names and defaults. */
const sendingQueue = z
  .strictObject({
    enabled: z
      .boolean()
      .default(true)
      .describe('False: no queue; the client is answered when the destination has the batch.'),
    storage: ref(QUEUE_STORAGE)
      .optional()
      .describe(
        'The extension that keeps the queue on disk. Without it there is no queue, because no batch is acknowledged from memory.',
      ),
    queue_size: z
      .int()
      .positive('queue_size must be positive')
      .default(1000)
      .describe('How much may wait, in units of sizer. A full queue refuses new requests.'),
    sizer: z
      .enum(['requests', 'items', 'bytes'])
      .default('requests')
      .describe('The unit of queue_size: requests, spans (or events), or bytes of bodies.'),
    num_consumers: z
      .int()
      .min(1, 'num_consumers must be positive')
      .max(1000)
      .default(10)
      .describe('The most requests in flight.'),
    block_on_overflow: z
      .boolean()
      .default(false)
      .describe('True: with a full queue the client waits, instead of being refused.'),
    wait_for_result: z
      .boolean()
      .optional()
      .describe(
        'As in the Collector: true without storage, because the answer then waits for the destination; false with storage.',
      ),
    batch: z
      .unknown()
      .optional()
      .describe('A field of the Collector. Refused, because each request is sent as it arrived.'),
  })
  .superRefine((value, context) => {
    const refuse = (field: string, message: string) => {
      context.addIssue({ code: 'custom', path: [field], message });
    };
    if (!value.enabled && value.storage !== undefined) {
      refuse('storage', 'storage has no effect in a sending_queue that is not enabled');
    }
    if (value.wait_for_result === true && value.storage !== undefined) {
      refuse(
        'wait_for_result',
        'with storage the client is answered when the batch is on disk; leave storage out to wait for the destination',
      );
    }
    if (value.wait_for_result === false && value.storage === undefined) {
      refuse(
        'wait_for_result',
        'without storage the answer waits for the destination, because no batch is acknowledged from memory; set storage to answer earlier',
      );
    }
    if (value.batch !== undefined) {
      refuse(
        'batch',
        'each request is sent as it arrived; batch at the clients, or in a Collector behind this exporter',
      );
    }
  });
export type SendingQueueConfig = z.output<typeof sendingQueue>;

export const config = z
  .strictObject({
    ...clientFields,
    encoding: z
      .enum(['proto', 'json'])
      .default('proto')
      .describe(
        'Encoding of spans that are made here. OTLP keeps the encoding in which it arrived.',
      ),
    convert: z
      .boolean()
      .default(false)
      .describe(
        'True: OTLP that arrived in the other encoding is converted to encoding, without unknown fields.',
      ),
    retry_on_failure: retryOnFailure
      .prefault({})
      .describe('Retries after 429, 502, 503, 504, broken connections and time-outs.'),
    sending_queue: sendingQueue
      .prefault({})
      .describe('The durable queue in front of the destination.'),
    open_span_timeout: duration('10m').describe(
      'With a queue, how long a start waits for its finish; then it is sent as a span without an end. 0s: no wait.',
    ),
    allow_multiple_projects: z
      .boolean()
      .default(false)
      .describe('True: several projects may be sent with the one key in headers.'),
  })
  .superRefine((value, context) => {
    const refuse = (path: string[], message: string) => {
      context.addIssue({ code: 'custom', path, message });
    };
    if (value.endpoint === undefined && value.traces_endpoint === undefined) {
      refuse([], 'either endpoint or traces_endpoint must be specified');
    }
    if (value.compression === 'gzip' && (value.compression_params.level ?? 0) > 9) {
      refuse(['compression_params', 'level'], 'gzip has the levels 1 to 9');
    }
    if (value.sending_queue.storage !== undefined && !value.retry_on_failure.enabled) {
      refuse(
        ['retry_on_failure', 'enabled'],
        'a sending_queue with storage needs retry_on_failure: batches in the queue are retried',
      );
    }
    if (value.timeout === 0) refuse(['timeout'], 'timeout must be above 0');
  });

export type OtlpHttpConfig = z.output<typeof config>;
