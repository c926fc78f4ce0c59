import { z } from 'zod';
import { duration, secret } from './fields.ts';

const version = z.enum(['1.2', '1.3']);
const file = (what: string) => z.string().min(1).optional().describe(what);

/** What a listener shows of itself, and whom it lets in; named as in the Collector. */
export function serverTls() {
  return z
    .strictObject({
      cert_file: file('File with the certificate and those it is signed by, as PEM.'),
      key_file: file('File with its private key, as PEM.'),
      cert_pem: z.string().optional().describe('The certificate itself, instead of a file.'),
      key_pem: secret().optional().describe('The private key itself, instead of a file.'),
      client_ca_file: file(
        'File with the authorities whose clients are let in; a client without a certificate of theirs is not.',
      ),
      min_version: version.default('1.2').describe('The oldest version of TLS that is spoken.'),
      max_version: version.optional().describe('The newest; every one where it is left out.'),
      reload_interval: duration('10s').describe(
        'How often the files are looked at; new ones serve the connections after that. 0s: never.',
      ),
    })
    .superRefine((tls, context) => {
      for (const part of ['cert', 'key'] as const) {
        const given = [tls[`${part}_file`], tls[`${part}_pem`]].filter(
          (each) => each !== undefined,
        );
        if (given.length === 1) continue;
        const message =
          given.length === 0
            ? `needs ${part}_file (or ${part}_pem)`
            : `takes ${part}_file or ${part}_pem, not both`;
        context.addIssue({ code: 'custom', path: [`${part}_file`], message });
      }
      if (tls.min_version === '1.3' && tls.max_version === '1.2') {
        const message = 'is older than min_version';
        context.addIssue({ code: 'custom', path: ['max_version'], message });
      }
    });
}
export type ServerTls = z.output<ReturnType<typeof serverTls>>;
