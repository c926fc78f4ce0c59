import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { authoritiesProblem } from './authorities.ts';
import { SUITE_NAMES } from './cipher-suites.ts';
import { duration, secret } from './fields.ts';
import { mark } from './marks.ts';

const version = z.enum(['1.2', '1.3']);
const file = (what: string) => z.string().min(1).optional().describe(what);

/** `tls` of a listener: its certificate, and the clients it accepts; the Collector's names. */
export function serverTls() {
  const tls = z
    .strictObject({
      cert_file: file('PEM file with the certificate and the chain of its authorities.'),
      key_file: file('PEM file with its private key.'),
      cert_pem: z.string().optional().describe('The certificate as PEM text, instead of a file.'),
      key_pem: secret().optional().describe('The private key as PEM text, instead of a file.'),
      client_ca_file: file(
        'PEM file with the authorities of clients. With it, a client needs a certificate of one of them.',
      ),
      min_version: version.default('1.2').describe('The oldest version of TLS to accept.'),
      max_version: version
        .optional()
        .describe('The newest version of TLS to accept. Default: the newest that Node supports.'),
      cipher_suites: z
        .array(z.enum(SUITE_NAMES))
        .min(1)
        .optional()
        .describe(
          'The cipher suites of TLS 1.2, by their IANA names. Default: all with forward secrecy and authenticated encryption, so none in CBC mode. TLS 1.3 has fixed suites.',
        ),
      reload_interval: duration('10s').describe(
        'How often the files are checked; new connections get a changed certificate. 0s: never.',
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
      const problem = tls.client_ca_file && problemOf(tls.client_ca_file);
      if (problem) context.addIssue({ code: 'custom', path: ['client_ca_file'], message: problem });
    });
  return mark(tls, { page: 'docs/tls.md' });
}
export type ServerTls = z.output<ReturnType<typeof serverTls>>;

/** A file that is not on this machine is no problem yet: the start reports it. */
function problemOf(file: string): string | undefined {
  let pem: string;
  try {
    pem = readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
  const problem = authoritiesProblem(pem);
  return problem && `cannot be used: ${problem}`;
}
