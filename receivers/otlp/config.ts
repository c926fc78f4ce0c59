import { z } from 'zod';
import { grpcFields } from '../../src/grpc/config.ts';
import { listenerFields, projectField } from '../../src/http/config.ts';
import { endpoint } from '../../src/schema/fields.ts';
import { mark } from '../../src/schema/marks.ts';
import { needsTrustedProxies } from '../../src/schema/trusted-proxies.ts';

const maxSpans = z
  .int()
  .min(1)
  .max(1_000_000)
  .default(1000)
  .describe('A request with more spans is refused as a whole. A Collector sends up to 8192.');

const maxLogRecords = z
  .int()
  .min(1)
  .max(1_000_000)
  .default(8192)
  .describe(
    'A request with more log records is refused as a whole. Records that are no events of LLM calls count, too.',
  );

const httpConfig = z
  .strictObject({
    endpoint: endpoint('127.0.0.1:4318').describe(
      'Address to listen on. Receivers with the same endpoint share one listener.',
    ),
    max_spans_per_request: maxSpans,
    max_log_records_per_request: maxLogRecords,
    ...listenerFields,
  })
  .superRefine(needsTrustedProxies);

const grpcConfig = z
  .strictObject({
    endpoint: mark(endpoint('127.0.0.1:4317'), { listens: 'grpc' }).describe(
      'Address to listen on. No other receiver can share it.',
    ),
    max_spans_per_request: maxSpans,
    max_log_records_per_request: maxLogRecords,
    ...grpcFields,
  })
  .superRefine(needsTrustedProxies);

/** An empty `http:` means HTTP with all defaults, as in the Collector. */
function allDefaults(value: unknown): unknown {
  return value === null ? {} : value;
}

export const config = z.strictObject({
  protocols: z
    .strictObject({
      http: z.preprocess(allDefaults, httpConfig).optional().describe('OTLP over HTTP.'),
      grpc: z.preprocess(allDefaults, grpcConfig).optional().describe('OTLP over gRPC.'),
    })
    .refine(({ http, grpc }) => http !== undefined || grpc !== undefined, {
      error: 'name at least one protocol: http or grpc',
    })
    .describe('The transports to serve: one or both.'),
  ...projectField,
});

export type OtlpConfig = z.output<typeof config>;
