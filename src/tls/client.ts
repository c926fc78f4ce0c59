import type { ClientTls } from '../schema/client-tls.ts';
import { readAuthorities, readFileOf } from './files.ts';

/** The `tls` of a configuration as options of Node's TLS connections. */
export type ClientTlsOptions = {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized: boolean;
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
};

/** Reads the files; rejects if one cannot be read, or if `ca_file` names no authority. */
export async function readClientTls(tls: ClientTls): Promise<ClientTlsOptions> {
  const [ca, cert, key] = await Promise.all([
    readAuthorities(tls.ca_file),
    readFileOf(tls.cert_file),
    readFileOf(tls.key_file),
  ]);
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tls.server_name_override === undefined ? {} : { servername: tls.server_name_override }),
    rejectUnauthorized: !tls.insecure_skip_verify,
    minVersion: `TLSv${tls.min_version}`,
  };
}
