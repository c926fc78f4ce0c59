import { z } from 'zod';
import { mark } from './marks.ts';

const path = () => z.string().min(1).optional();

/** `tls` of a connection to a server, such as `Redis`; the Collector's names. */
export function clientTls(server: string) {
  const tls = z
    .strictObject({
      ca_file: path().describe("PEM file with the authorities to trust, instead of the system's."),
      cert_file: path().describe(`PEM file with the certificate that is shown to ${server}.`),
      key_file: path().describe('PEM file with the key of this certificate.'),
      server_name_override: path().describe(
        `The name that the certificate of ${server} must have, instead of the host's.`,
      ),
      insecure_skip_verify: z
        .boolean()
        .default(false)
        .describe(
          'True: any certificate is accepted, so an attacker who redirects the connection can read it. For tests.',
        ),
      min_version: z
        .enum(['1.2', '1.3'], { error: 'min_version must be 1.2 or 1.3' })
        .default('1.2')
        .describe('The oldest version of TLS to accept.'),
    })
    .superRefine(({ cert_file, key_file }, context) => {
      if ((cert_file === undefined) === (key_file === undefined)) return;
      context.addIssue({
        code: 'custom',
        path: [cert_file === undefined ? 'cert_file' : 'key_file'],
        message: 'for client authentication, both cert_file and key_file must be given',
      });
    });
  return mark(tls, { page: 'docs/tls.md#connections-to-servers' });
}
export type ClientTls = z.output<ReturnType<typeof clientTls>>;
