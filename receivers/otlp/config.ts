import { z } from 'zod';
import { endpoint } from '../../src/config/schema.ts';
import { listenerFields, projectField } from '../../src/http/config.ts';

const httpConfig = z.strictObject({
  endpoint: endpoint('127.0.0.1:4318').describe(
    'Where to listen; receivers that name the same endpoint share one listener',
  ),
  max_spans_per_request: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(1000)
    .describe('A request with more spans is refused whole; a Collector sends up to 8192'),
  ...listenerFields,
});

export const otlpConfig = z.strictObject({
  protocols: z
    .strictObject({
      // `http:` alone means HTTP with all defaults, as in the Collector.
      http: z
        .preprocess((value) => (value === null ? {} : value), httpConfig)
        .describe('OTLP over HTTP'),
    })
    .describe('The transports to serve'),
  ...projectField,
});

export type OtlpConfig = z.output<typeof otlpConfig>;
