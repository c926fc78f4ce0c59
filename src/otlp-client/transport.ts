import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { buildConnector, Dispatcher, Pool, ProxyAgent } from 'undici';
import { inflateSync } from '../model/inflate.ts';
import { readClientTls } from '../tls/client.ts';
import { type ClientConfig, tracesUrl } from './config.ts';

/** A response of the destination, as far as the client reads it. */
export type ClientResponse = {
  readonly status: number;
  /** Without parameters, in lower case; empty if there is none. */
  readonly contentType: string;
  readonly retryAfter: string | undefined;
  /** The encodings that the destination takes; undefined if it does not name them. */
  readonly acceptEncoding: string | undefined;
  readonly body: Buffer;
  /** The body is longer than the limit, and the rest was not read. */
  readonly isTruncated: boolean;
};

/** A request in flight. */
type PendingRequest = {
  /** Rejects if no response arrives: the connection broke, or `abort` was called. */
  readonly response: Promise<ClientResponse>;
  /** Ends the request at any stage, also while it waits for a connection. */
  abort(): void;
};

/** Connections to one destination. */
export type Transport = {
  send(body: Buffer, headers: Readonly<Record<string, string>>): PendingRequest;
  /**
   * Whether the system has taken all bytes that were written to the connections, so that no memory of a body is read any more. Before
   * that a body must not be freed: a destination may answer early. False where the connections cannot tell: HTTP/2, and a proxy.
   */
  isSent(): boolean;
  close(): Promise<void>;
};

/** Limit for the body of a success; OTLP's own. */
const MAX_SUCCESS_BYTES = 4 * 1024 * 1024;
/** Limit for every other body: enough for its message. */
const MAX_ERROR_BYTES = 64 * 1024;

export async function openTransport(config: ClientConfig): Promise<Transport> {
  const url = tracesUrl(config);
  const tls = await readClientTls(config.tls);
  const options = {
    connections: config.max_conns_per_host === 0 ? null : config.max_conns_per_host,
    // In undici, 0 means that a connection serves one request.
    pipelining: config.disable_keep_alives ? 0 : 1,
    keepAliveTimeout: Math.max(1, config.idle_conn_timeout),
    keepAliveMaxTimeout: Math.max(1, config.idle_conn_timeout),
    // The caller has one timer for the whole request.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  const { proxy_url: proxy, timeout } = config;
  const connections = new Connections();
  const dispatcher =
    proxy === undefined
      ? await poolTo(url.origin, options, { ...tls, timeout }, connections)
      : await proxyTo({ ...options, uri: proxy, requestTls: tls });
  const fixed = lowerCase({ 'user-agent': 'tracectl', ...config.headers, ...credentialsOf(url) });
  const request = { origin: url.origin, path: url.pathname + url.search, method: 'POST' } as const;
  return {
    send(body, headers) {
      const reader = new ResponseReader();
      dispatcher.dispatch({ ...request, headers: { ...fixed, ...headers }, body }, reader);
      return reader;
    },
    isSent: () => proxy === undefined && connections.areSent(),
    close: () => dispatcher.destroy(),
  };
}

/**
 * Loads only the part of undici that it uses: all of it takes 7 MB more. A configuration without a client
 * loads none.
 */
async function poolTo(
  origin: string,
  options: Pool.Options,
  connectOptions: buildConnector.BuildOptions,
  connections: Connections,
): Promise<Dispatcher> {
  const { default: UndiciPool } = await import('undici/lib/dispatcher/pool.js');
  const { default: build } = await import('undici/lib/core/connect.js');
  return new UndiciPool(origin, {
    ...options,
    connect: connections.watched(build(connectOptions)),
  });
}

/** The open connections of a pool. A connection that was destroyed counts until the system has closed it. */
class Connections {
  readonly #sockets = new Set<Socket>();

  watched(connect: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      connect(options, (...result) => {
        const [error, socket] = result;
        if (error === null) {
          this.#sockets.add(socket);
          socket.once('close', () => this.#sockets.delete(socket));
        }
        callback(...result);
      });
    };
  }

  /** A session of HTTP/2 writes past its socket, which then has no bytes to send. */
  areSent(): boolean {
    for (const socket of this.#sockets) {
      if (socket.writableLength > 0 || isHttp2(socket)) return false;
    }
    return true;
  }
}

function isHttp2(socket: Socket): boolean {
  return 'alpnProtocol' in socket && socket.alpnProtocol === 'h2';
}

async function proxyTo(options: ProxyAgent.Options): Promise<Dispatcher> {
  const { ProxyAgent: UndiciProxyAgent } = await import('undici');
  return new UndiciProxyAgent(options);
}

/**
 * Collects the response of one request from undici's dispatcher. The streams and signals of undici's other
 * calls cost more than the rest of the request.
 */
class ResponseReader implements Dispatcher.DispatchHandler, PendingRequest {
  readonly response: Promise<ClientResponse>;
  readonly #resolve: (response: ClientResponse) => void;
  readonly #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #isAborted = false;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #chunks: Buffer[] = [];
  #length = 0;

  constructor() {
    const { promise, resolve, reject } = Promise.withResolvers<ClientResponse>();
    this.response = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  abort(): void {
    this.#isAborted = true;
    const error = new Error('the request was aborted');
    this.#controller?.abort(error);
    this.#reject(error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isAborted) controller.abort(new Error('the request was aborted'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // The final response follows an interim one.
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const limit = this.#status < 300 ? MAX_SUCCESS_BYTES : MAX_ERROR_BYTES;
    if (this.#length <= limit) return;
    this.#settle(limit, true);
    controller.abort(new Error('the response is too large'));
  }

  onResponseEnd(): void {
    this.#settle(this.#length, false);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#reject(error);
  }

  #settle(length: number, isTruncated: boolean): void {
    // A chunk is a view of a larger read; concatenating copies it.
    const bytes = length === 0 ? EMPTY : Buffer.concat(this.#chunks, this.#length);
    const headers = this.#headers;
    this.#resolve({
      status: this.#status,
      contentType: mediaTypeOf(headers),
      retryAfter: textOf(headers['retry-after']) || undefined,
      acceptEncoding: headers['accept-encoding'],
      body: inflated(bytes.subarray(0, length), textOf(headers['content-encoding'])),
      isTruncated,
    });
  }
}

const EMPTY = Buffer.alloc(0);

/** The credentials in `https://user:password@host`. */
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

function mediaTypeOf(headers: IncomingHttpHeaders): string {
  const [type = ''] = textOf(headers['content-type']).split(';', 1);
  return type.trim().toLowerCase();
}

function textOf(header: string | string[] | undefined): string {
  return (Array.isArray(header) ? header[0] : header) ?? '';
}

/** The client asks for no compression, but some servers compress anyway. */
function inflated(bytes: Buffer, encoding: string): Buffer {
  if (encoding !== 'gzip' && encoding !== 'zstd') return bytes;
  try {
    return inflateSync(bytes, encoding, MAX_SUCCESS_BYTES);
  } catch {
    return bytes;
  }
}
