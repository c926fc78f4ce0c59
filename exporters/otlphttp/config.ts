import { z } from 'zod';
import { clientFields } from '../../src/otlp-client/config.ts';
import { duration } from '../../src/schema/fields.ts';
import { retryOnFailure, sendingQueue } from './delivery-fields.ts';

export const config = z
  .strictObject({
    ...clientFields,
    encoding: z
      .enum(['proto', 'json'])
      .default('proto')
      .describe('For spans that are made here. What came in as OTLP leaves as it came.'),
    convert: z
      .boolean()
      .default(false)
      .describe(
        'True: OTLP that came in the other encoding is converted to encoding; unknown fields are lost.',
      ),
    retry_on_failure: retryOnFailure()
      .prefault({})
      .describe('Tries after 429, 502, 503, 504, broken connections and time-outs.'),
    sending_queue: sendingQueue()
      .prefault({})
      .describe('The durable queue in front of the destination.'),
    open_span_timeout: duration('10m').describe(
      'With a queue, a start waits this long for its finish; then it is sent as a span without an end. 0s: at once.',
    ),
    allow_multiple_projects: z
      .boolean()
      .default(false)
      .describe('True: several projects may be sent with the one key that stands in headers.'),
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
        'retry_on_failure must be enabled where sending_queue has storage: what waits there is tried again',
      );
    }
    if (value.timeout === 0) refuse(['timeout'], 'timeout must be above 0');
  });

export type OtlpHttpConfig = z.output<typeof config>;
