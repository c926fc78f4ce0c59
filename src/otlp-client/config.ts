import { z } from 'zod';
import { httpUrl, parseHttpUrl, secretHeaders } from '../schema/client-fields.ts';
import { clientTls } from '../schema/client-tls.ts';
import { duration } from '../schema/fields.ts';
import { mark } from '../schema/marks.ts';

const answer = z.enum(['hold', 'dead_letter', 'retry']);

/** How a client reaches a destination, and what it makes of its answers; the Collector's names and defaults. */
export const clientFields = {
  endpoint: httpUrl('endpoint')
    .optional()
    .describe('Base address of the destination; /v1/traces is appended.'),
  traces_endpoint: httpUrl('traces_endpoint')
    .optional()
    .describe('The whole address that spans are sent to, instead of endpoint.'),
  headers: secretHeaders().default({}).describe('Headers of every request, e.g. x-api-key.'),
  compression: z
    .enum(['gzip', 'zstd', 'none'])
    .default('gzip')
    .describe('Of request bodies. A body that came compressed alike is sent as it came.'),
  compression_params: z
    .strictObject({
      level: z.int().min(1).max(22).optional().describe('gzip: 1 to 9, zstd: 1 to 22.'),
    })
    .prefault({})
    .describe('How hard bodies are compressed.'),
  timeout: duration('30s').describe('For one request, from its start to the end of the answer.'),
  tls: clientTls('the destination')
    .safeExtend({
      insecure: z
        .boolean()
        .default(false)
        .describe("Accepted for the Collector's sake; the scheme of the address decides."),
    })
    .prefault({})
    .describe('Certificates, for https.'),
  proxy_url: mark(httpUrl('proxy_url'), { secret: true })
    .optional()
    .describe('An HTTP proxy to go through.'),
  max_conns_per_host: z
    .int()
    .min(0)
    .default(0)
    .describe('Connections to the destination; 0 is as many as are needed.'),
  idle_conn_timeout: duration('90s').describe('An unused connection is closed after this.'),
  disable_keep_alives: z
    .boolean()
    .default(false)
    .describe('True: every request has a connection of its own.'),
  on_permanent_error: z
    .record(z.string().regex(/^[345]\d\d$/, 'expected a status code from 300 to 599'), answer)
    .default({})
    .describe(
      'By status code: dead_letter, hold (wait, loudly, until it works again) or retry. Default: hold for 401, 403 and 404, else dead_letter.',
    ),
};

export const clientConfig = z.strictObject(clientFields);

export type ClientConfig = z.output<typeof clientConfig>;

/** A wrong credential or address: nothing that was sent is at fault, so that nothing is given up for it. */
const HELD_BY_DEFAULT = ['401', '403', '404'];

/** What becomes of a batch that was answered with this status, which by itself forbids another try. */
export function answerTo(status: number, config: ClientConfig): z.infer<typeof answer> {
  const code = String(status);
  return (
    config.on_permanent_error[code] ?? (HELD_BY_DEFAULT.includes(code) ? 'hold' : 'dead_letter')
  );
}

/** Where spans go: `traces_endpoint` to the letter, or `endpoint` with the path that OTLP names. */
export function tracesUrl(config: ClientConfig): URL {
  const whole = parseHttpUrl(config.traces_endpoint ?? '');
  if (whole !== undefined) return whole;
  const url = new URL(config.endpoint ?? '');
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/traces`;
  return url;
}
