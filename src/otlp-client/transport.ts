import type { IncomingHttpHeaders } from 'node:http';
import { inflateSync } from '../model/inflate.ts';
import { readClientTls } from '../tls/client.ts';
import { type ClientConfig, tracesUrl } from './config.ts';
import { Exchange } from './exchange.ts';

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

export type Sending = { readonly reply: Promise<Reply>; abort(): void };

/** Connections to one destination. */
export type Transport = {
  /** `reply` rejects where no answer came: the connection broke, or `abort` was called. */
  send(body: Buffer, headers: Readonly<Record<string, string>>): Sending;
  close(): Promise<void>;
};

/** Of an answer that says success; OTLP's own bound. */
const MAX_SUCCESS_BYTES = 4 * 1024 * 1024;
/** Of any other: enough for its message. */
const MAX_ERROR_BYTES = 64 * 1024;

/** undici is loaded here, so that it costs nothing where no configuration names this exporter. */
export async function openTransport(config: ClientConfig): Promise<Transport> {
  const { Pool, ProxyAgent } = await import('undici');
  const url = tracesUrl(config);
  const tls = await readClientTls(config.tls);
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
  const fixed = lowerCase({ 'user-agent': 'tracectl', ...config.headers, ...credentialsOf(url) });
  const request = { origin: url.origin, path: url.pathname + url.search, method: 'POST' } as const;
  return {
    send(body, headers) {
      const exchange = new Exchange(limitOf);
      dispatcher.dispatch({ ...request, headers: { ...fixed, ...headers }, body }, exchange);
      return {
        reply: exchange.answer.then(({ status, headers, bytes, isCut }) => ({
          status,
          contentType: mediaTypeOf(headers),
          retryAfter: textOf(headers['retry-after']) || undefined,
          body: inflated(bytes, textOf(headers['content-encoding'])),
          isCut,
        })),
        abort: () => exchange.abort(),
      };
    },
    close: () => dispatcher.destroy(),
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

function limitOf(status: number): number {
  return status < 300 ? MAX_SUCCESS_BYTES : MAX_ERROR_BYTES;
}

function mediaTypeOf(headers: IncomingHttpHeaders): string {
  const [type = ''] = textOf(headers['content-type']).split(';', 1);
  return type.trim().toLowerCase();
}

function textOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header) ?? '';
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
