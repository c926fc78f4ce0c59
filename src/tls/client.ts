import { readFile } from 'node:fs/promises';
import { z } from 'zod';

const file = (what: string) => z.string().min(1).optional().describe(what);

/** `tls` of a connection to a server of another kind, such as `Redis`. */
export function connectionTls(server: string) {
  return z
    .strictObject({
      ca_file: file('PEM of the authorities that are trusted.'),
      cert_file: file(`PEM of the certificate shown to ${server}.`),
      key_file: file('PEM of its key.'),
      server_name_override: file(`The name that the certificate of ${server} must bear.`),
      insecure_skip_verify: z
        .boolean()
        .default(false)
        .describe(
          'Take any certificate, which protects from nobody who can redirect the connection.',
        ),
    })
    .refine(({ cert_file, key_file }) => (cert_file === undefined) === (key_file === undefined), {
      error: '`cert_file` and `key_file` belong together',
    });
}

export type ClientTls = {
  readonly ca_file?: string | undefined;
  readonly cert_file?: string | undefined;
  readonly key_file?: string | undefined;
  readonly server_name_override?: string | undefined;
  readonly insecure_skip_verify: boolean;
};

/** As options of a TLS connection. */
export type ClientTlsOptions = {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized: boolean;
};

/** Reads the files; rejects where one cannot be read. */
export async function readClientTls(tls: ClientTls): Promise<ClientTlsOptions> {
  const [ca, cert, key] = await Promise.all(
    [tls.ca_file, tls.cert_file, tls.key_file].map((path) =>
      path === undefined ? undefined : readFile(path),
    ),
  );
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tls.server_name_override === undefined ? {} : { servername: tls.server_name_override }),
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}
