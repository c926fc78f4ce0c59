import { z } from 'zod';
import { secret } from './fields.ts';

/** Fields of clients of other services, with the Collector's names and defaults. */

/** An `http` or `https` address; what it says is wrong names the field. */
export function httpUrl(field: string) {
  return z
    .string()
    .refine((text) => parseHttpUrl(text) !== undefined, {
      error: `${field} must be a valid URL, such as http://127.0.0.1:4318`,
    })
    .meta({ examples: ['https://gateway.example.com:4318'] });
}

/** Undefined where the text is no absolute address of HTTP, or carries a fragment. */
export function parseHttpUrl(text: string): URL | undefined {
  if (!/^https?:\/\/[^\s/]/i.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.hostname !== '' && url.hash === '' ? url : undefined;
}

/** `headers`: names that HTTP allows, values that are never printed. */
export function secretHeaders() {
  return z.record(
    z
      .string()
      .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'a header has a name of letters, digits and -'),
    // The value's characters are those that may stand in a header line.
    secret().regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'a header holds one line of Latin-1 text'),
  );
}

const TLS_VERSIONS = ['1.2', '1.3'] as const;

/** How a server is recognized, and what it recognizes us by. */
export function tlsClient() {
  return z
    .strictObject({
      insecure: z
        .boolean()
        .default(false)
        .describe('True: an endpoint without a scheme would be plain HTTP; http:// always is.'),
      insecure_skip_verify: z
        .boolean()
        .default(false)
        .describe("True: the server's certificate is not checked. For tests alone."),
      ca_file: z
        .string()
        .min(1)
        .optional()
        .describe("PEM file with the authorities to trust, instead of the system's."),
      cert_file: z.string().min(1).optional().describe('PEM file with our certificate.'),
      key_file: z.string().min(1).optional().describe("PEM file with our certificate's key."),
      server_name_override: z
        .string()
        .min(1)
        .optional()
        .describe("The name that the server's certificate must have, instead of the endpoint's."),
      min_version: z
        .enum(TLS_VERSIONS, { error: 'min_version must be 1.2 or 1.3' })
        .default('1.2')
        .describe('The oldest version of TLS to speak.'),
    })
    .superRefine((value, context) => {
      if ((value.cert_file === undefined) === (value.key_file === undefined)) return;
      const missing = value.cert_file === undefined ? 'cert_file' : 'key_file';
      context.addIssue({
        code: 'custom',
        path: [missing],
        message: 'for client authentication, both cert_file and key_file must be given',
      });
    });
}
export type TlsClient = z.output<ReturnType<typeof tlsClient>>;
