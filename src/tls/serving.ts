import { readFile, stat } from 'node:fs/promises';
import type { SecureContextOptions, Server } from 'node:tls';
import { createSecureContext, createServer } from 'node:tls';
import type { Clock, Logger, Metrics } from '../component/component.ts';
import type { ServerTls } from '../schema/server-tls.ts';

/** TLS in front of a listener: it is handed connections, and hands on those it has secured. */
export type TlsServing = {
  /** Does not listen itself: whoever listens emits `connection`, and takes `secureConnection`. */
  readonly server: Server;
  /** Stops looking at the files. */
  close(): void;
};

export type TlsParts = {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** For logs and metrics: where it listens. */
  readonly endpoint: string;
  /** Milliseconds that a handshake may take. */
  readonly handshakeTimeout: number;
  readonly protocols: readonly ('http/1.1' | 'h2')[];
};

/**
 * Rejects with a sentence that names the file when there is no such file, or nothing in it can serve. Files that
 * change later are taken up; as long as the new ones cannot serve, the old ones do.
 */
export async function openTls(config: ServerTls, parts: TlsParts): Promise<TlsServing> {
  const { clock, logger, metrics, endpoint } = parts;
  const reloads = metrics.counter(
    'tracectl_tls_reloads_total',
    'Certificates that were exchanged because their files changed, by outcome.',
  );
  let seen = await stateOf(config);
  const server = createServer({
    ...(await contextOf(config)),
    requestCert: config.client_ca_file !== undefined,
    rejectUnauthorized: config.client_ca_file !== undefined,
    handshakeTimeout: parts.handshakeTimeout,
    ALPNProtocols: [...parts.protocols],
  });
  server.on('tlsClientError', (error, socket) => {
    logger.debug({ endpoint, reason: error.message }, 'a client was not secured');
    socket.destroy();
  });
  let isClosed = false;
  let cancel = (): void => {};

  function lookLater(): void {
    if (isClosed || config.reload_interval === 0) return;
    cancel = clock.after(config.reload_interval, () => void look());
  }

  async function look(): Promise<void> {
    try {
      const now = await stateOf(config);
      if (now !== seen) {
        server.setSecureContext(await contextOf(config));
        seen = now;
        reloads.add(1, { outcome: 'success' });
        logger.info({ endpoint }, 'the certificate was exchanged');
      }
    } catch (error) {
      reloads.add(1, { outcome: 'failure' });
      logger.error({ endpoint, error }, 'the new certificate cannot serve: the old one does');
    }
    lookLater();
  }

  lookLater();
  return {
    server,
    close() {
      isClosed = true;
      cancel();
    },
  };
}

/** Changes when one of the files does, also where a link comes to point elsewhere. */
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
    config.cert_pem ?? contentOf(config.cert_file),
    config.key_pem ?? contentOf(config.key_file),
    contentOf(config.client_ca_file),
  ]);
  const options: SecureContextOptions = {
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(ca === undefined ? {} : { ca }),
    minVersion: `TLSv${config.min_version}`,
    ...(config.max_version === undefined
      ? {}
      : { maxVersion: `TLSv${config.max_version}` as const }),
  };
  try {
    createSecureContext(options);
  } catch (cause) {
    const from = config.cert_file ?? 'cert_pem';
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`the certificate ${from} and its key cannot serve: ${reason}`, { cause });
  }
  return options;
}

async function contentOf(file: string | undefined): Promise<Buffer | undefined> {
  return file === undefined ? undefined : readFile(file).catch(unreadable(file));
}

function unreadable(file: string): (cause: unknown) => never {
  return (cause) => {
    const reason = cause instanceof Error && 'code' in cause ? cause.code : String(cause);
    throw new Error(`${file} cannot be read: ${reason}`, { cause });
  };
}
