import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { authoritiesProblem, pairProblem } from './certificates.ts';
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
      for (const { path, problem } of fileProblems(tls)) {
        context.addIssue({ code: 'custom', path: [path], message: `cannot be used: ${problem}` });
      }
    });
  return mark(tls, { page: 'docs/tls.md' });
}
export type ServerTls = z.output<ReturnType<typeof serverTls>>;

type Files = {
  readonly [name in 'cert_file' | 'cert_pem' | 'key_file' | 'key_pem' | 'client_ca_file']?:
    | string
    | undefined;
};

/** The problems of files that are on this machine: the start reports the files that are not. */
function* fileProblems(tls: Files): Generator<{ path: keyof Files; problem: string }> {
  const authorities = textOf(tls.client_ca_file);
  const problem = authorities === undefined ? undefined : authoritiesProblem(authorities);
  if (problem) yield { path: 'client_ca_file', problem };
  const certificate = onlyOne(tls.cert_pem, textOf(tls.cert_file));
  const key = onlyOne(tls.key_pem, textOf(tls.key_file));
  if (certificate === undefined || key === undefined) return;
  const pair = pairProblem(certificate, key);
  if (pair === undefined) return;
  const given = pair.of === 'cert' ? tls.cert_file : tls.key_file;
  yield { path: `${pair.of}_${given === undefined ? 'pem' : 'file'}`, problem: pair.problem };
}

/** Undefined without a text, and if there are two: only one of them may be given. */
function onlyOne(text: string | undefined, other: string | undefined): string | undefined {
  return text === undefined || other === undefined ? (text ?? other) : undefined;
}

function textOf(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
