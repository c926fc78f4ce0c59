import { z } from 'zod';
import { httpUrl, parseHttpUrl, secretHeaders } from '../schema/client-fields.ts';
import { clientTls } from '../schema/client-tls.ts';
import { duration } from '../schema/fields.ts';
import { mark } from '../schema/marks.ts';

const action = z.enum(['hold', 'dead_letter', 'retry']);

/** The connection to a destination, and the treatment of its responses; the Collector's names and defaults. */
export const clientFields = {
  endpoint: httpUrl('endpoint')
    .optional()
    .describe('Base address of the destination; /v1/traces is appended.'),
  traces_endpoint: httpUrl('traces_endpoint')
    .optional()
    .describe('The complete address for spans, instead of endpoint.'),
  headers: secretHeaders().default({}).describe('Headers of every request, e.g. x-api-key.'),
  compression: z
    .enum(['gzip', 'zstd', 'none'])
    .default('gzip')
    .describe(
      'Compression of request bodies. A body that arrived in the same compression is sent unchanged.',
    ),
  compression_params: z
    .strictObject({
      level: z
        .int()
        .min(1)
        .max(22)
        .optional()
        .describe('Level of the compression: 1 to 9 for gzip, 1 to 22 for zstd.'),
    })
    .prefault({})
    .describe('Parameters of the compression.'),
  timeout: duration('30s').describe(
    'Time for one request, from its start to the end of the response.',
  ),
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
    .describe('Address of an HTTP proxy.'),
  max_conns_per_host: z
    .int()
    .min(0)
    .default(0)
    .describe('The most connections to the destination; 0 is no limit.'),
  idle_conn_timeout: duration('90s').describe('Time after which an unused connection is closed.'),
  disable_keep_alives: z
    .boolean()
    .default(false)
    .describe('True: every request opens a connection of its own.'),
  on_permanent_error: z
    .record(z.string().regex(/^[345]\d\d$/, 'expected a status code from 300 to 599'), action)
    .default({})
    .describe(
      'Action by status code: dead_letter, retry, or hold (wait and report an error until the destination accepts data). Default: hold for 401, 403, 404 and 415 (if the encoding is refused or the body is protobuf), else dead_letter.',
    ),
};

export const clientConfig = z.strictObject(clientFields);

export type ClientConfig = z.output<typeof clientConfig>;

/** A wrong credential or address: the data is not at fault, so it is kept. */
const HELD_BY_DEFAULT: readonly number[] = [401, 403, 404];

/** The action for a status that OTLP does not let a client retry. */
export function actionFor(
  status: number,
  config: ClientConfig,
  /** Whether the destination refuses the encoding or type of every body, not of this one alone. */
  refusesEveryBody: boolean,
): z.output<typeof action> {
  const isHeld = HELD_BY_DEFAULT.includes(status) || refusesEveryBody;
  return config.on_permanent_error[String(status)] ?? (isHeld ? 'hold' : 'dead_letter');
}

/** The address for spans: `traces_endpoint` unchanged, or `endpoint` with the path that OTLP defines. */
export function tracesUrl(config: ClientConfig): URL {
  const whole = parseHttpUrl(config.traces_endpoint ?? '');
  if (whole !== undefined) return whole;
  const url = new URL(config.endpoint ?? '');
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/traces`;
  return url;
}
