import { readFile } from 'node:fs/promises';
import { inflateSync } from '../../src/model/inflate.ts';
import { type OtlpHttpConfig, tracesUrl } from './config.ts';

/** An answer, as far as anybody reads it. */
export type Reply = {
  readonly status: number;
  /** Without parameters, in lower case; empty where there is none. */
  readonly contentType: string;
  readonly retryAfter: string | undefined;
  readonly body: Buffer;
  /** The body goes on beyond what was read. */
  readonly isCut: boolean;
};

/** Connections to one destination. */
export type Transport = {
  /** Rejects where no answer came: the connection broke, or `signal` aborted. */
  send(
    body: Buffer,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Reply>;
  close(): Promise<void>;
};

/** Of an answer that says success; OTLP's own bound. */
const MAX_SUCCESS_BYTES = 4 * 1024 * 1024;
/** Of any other: enough for its message. */
const MAX_ERROR_BYTES = 64 * 1024;

/** undici is loaded here, so that it costs nothing where no configuration names this exporter. */
export async function openTransport(config: OtlpHttpConfig): Promise<Transport> {
  const { Pool, ProxyAgent } = await import('undici');
  const url = tracesUrl(config);
  const tls = await tlsOptions(config);
  const options = {
    connections: config.max_conns_per_host === 0 ? null : config.max_conns_per_host,
    // Zero is how undici says that a connection serves one request.
    pipelining: config.disable_keep_alives ? 0 : 1,
    keepAliveTimeout: Math.max(1, config.idle_conn_timeout),
    keepAliveMaxTimeout: Math.max(1, config.idle_conn_timeout),
    // One timer covers a whole request; see sender.ts.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  const dispatcher =
    config.proxy_url === undefined
      ? new Pool(url.origin, { ...options, connect: { ...tls, timeout: config.timeout } })
      : new ProxyAgent({ ...options, uri: config.proxy_url, requestTls: tls });
  const fixed = { ...config.headers, ...credentialsOf(url) };
  return {
    async send(body, headers, signal) {
      const response = await dispatcher.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method: 'POST',
        headers: { 'user-agent': 'tracectl', ...lowerCase(fixed), ...headers },
        body,
        signal,
      });
      const { statusCode: status } = response;
      const limit = status < 300 ? MAX_SUCCESS_BYTES : MAX_ERROR_BYTES;
      const read = await readUpTo(response.body, limit);
      return {
        status,
        contentType: (textOf(response.headers['content-type']).split(';')[0] ?? '')
          .trim()
          .toLowerCase(),
        retryAfter: textOf(response.headers['retry-after']) || undefined,
        body: inflated(read.bytes, textOf(response.headers['content-encoding'])),
        isCut: read.isCut,
      };
    },
    close: () => dispatcher.destroy(),
  };
}

async function tlsOptions({ tls }: OtlpHttpConfig) {
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
    minVersion: tls.min_version === '1.3' ? ('TLSv1.3' as const) : ('TLSv1.2' as const),
  };
}

/** `https://user:password@host`. */
function credentialsOf(url: URL): Record<string, string> {
  if (url.username === '') return {};
  const text = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return { authorization: `Basic ${Buffer.from(text).toString('base64')}` };
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

function textOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header) ?? '';
}

type Body = AsyncIterable<Buffer> & { destroy(): void };

async function readUpTo(body: Body, limit: number): Promise<{ bytes: Buffer; isCut: boolean }> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > limit) {
      body.destroy();
      return { bytes: Buffer.concat(chunks).subarray(0, limit), isCut: true };
    }
  }
  return { bytes: Buffer.concat(chunks), isCut: false };
}

/** No compression is asked for; some compress all the same. */
function inflated(bytes: Buffer, encoding: string): Buffer {
  if (encoding !== 'gzip' && encoding !== 'zstd') return bytes;
  try {
    return inflateSync(bytes, encoding, MAX_SUCCESS_BYTES);
  } catch {
    return bytes;
  }
}
