import { stat } from 'node:fs/promises';
import type { SecureContextOptions, Server } from 'node:tls';
import type { Clock, Logger, Metrics } from '../component/component.ts';
import { CIPHER_SUITES, DEFAULT_SUITES } from '../schema/cipher-suites.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import { readAuthorities, readFileOf, unreadable } from './files.ts';

/** TLS for the connections of a listener. */
export type TlsServing = {
  /** Does not listen: the listener emits `connection` on it, and gets `secureConnection` from it. */
  readonly server: Server;
  /** Stops watching the files. */
  close(): void;
};

export type TlsParts = {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The address of the listener, for logs. */
  readonly endpoint: string;
  /** The longest handshake, in milliseconds. */
  readonly handshakeTimeout: number;
  readonly protocols: readonly ('http/1.1' | 'h2')[];
};

/**
 * Rejects with a sentence that names the file if a file cannot be read, or the certificate and its key cannot
 * be used. Files that change later replace the certificate; until the new files can be used, the previous
 * certificate stays in use.
 */
export async function openTls(config: ServerTls, parts: TlsParts): Promise<TlsServing> {
  const { clock, logger, metrics, endpoint } = parts;
  const reloads = metrics.counter(
    'tracectl_tls_reloads_total',
    'Certificates that were replaced because their files changed, by outcome.',
  );
  let seen = await stateOf(config);
  // Loaded late: the module takes 5 MB.
  const server = process.getBuiltinModule('node:tls').createServer({
    ...(await contextOf(config)),
    requestCert: config.client_ca_file !== undefined,
    rejectUnauthorized: config.client_ca_file !== undefined,
    handshakeTimeout: parts.handshakeTimeout,
    ALPNProtocols: [...parts.protocols],
  });
  server.on('tlsClientError', (error, socket) => {
    logger.debug({ endpoint, err: error }, 'TLS handshake failed');
    socket.destroy();
  });
  let isClosed = false;
  let cancel = (): void => {};

  function checkLater(): void {
    if (isClosed || config.reload_interval === 0) return;
    cancel = clock.after(config.reload_interval, () => void check());
  }

  async function check(): Promise<void> {
    try {
      const now = await stateOf(config);
      if (now !== seen) {
        server.setSecureContext(await contextOf(config));
        seen = now;
        reloads.add(1, { outcome: 'success' });
        logger.info({ endpoint }, 'Certificate replaced');
      }
    } catch (err) {
      reloads.add(1, { outcome: 'failure' });
      logger.error(
        { endpoint, err },
        'New certificate cannot be used; the previous one stays in use',
      );
    }
    checkLater();
  }

  checkLater();
  return {
    server,
    close() {
      isClosed = true;
      cancel();
    },
  };
}

/** A fingerprint of the files. It also changes when a symbolic link points to another file. */
async function stateOf(config: ServerTls): Promise<string> {
  const files = [config.cert_file, config.key_file, config.client_ca_file];
  const states = await Promise.all(
    files.map(async (file) => {
      if (file === undefined) return '';
      const { ino, size, mtimeMs } = await stat(file).catch(unreadable(file));
      return `${ino} ${size} ${mtimeMs}`;
    }),
  );
  return states.join();
}

async function contextOf(config: ServerTls): Promise<SecureContextOptions> {
  const [cert, key, ca] = await Promise.all([
    config.cert_pem ?? readFileOf(config.cert_file),
    config.key_pem ?? readFileOf(config.key_file),
    readAuthorities(config.client_ca_file),
  ]);
  const options: SecureContextOptions = {
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(ca === undefined ? {} : { ca }),
    minVersion: `TLSv${config.min_version}`,
    ciphers: ciphersOf(config),
    honorCipherOrder: true,
    ...(config.max_version === undefined
      ? {}
      : { maxVersion: `TLSv${config.max_version}` as const }),
  };
  try {
    process.getBuiltinModule('node:tls').createSecureContext(options);
  } catch (cause) {
    const from = config.cert_file ?? 'cert_pem';
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`The certificate ${from} cannot be used with its key: ${reason}`, { cause });
  }
  return options;
}

/** The suites of TLS 1.3 are in the list too: OpenSSL's option covers both versions. */
const TLS13 = ['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256'];

function ciphersOf({ cipher_suites }: ServerTls): string {
  const suites = cipher_suites ?? DEFAULT_SUITES;
  return [...TLS13, ...suites.map((name) => CIPHER_SUITES[name])].join(':');
}
