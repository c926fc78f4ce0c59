import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import {
  createServer as createSecureServer,
  type ServerOptions as SecureServerOptions,
} from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import type { OtlpIndex } from '../../src/model/batch-index.ts';
import { scan } from '../../src/model/formats.ts';
import { spanAt } from '../../src/model/otlp/context.ts';
import type { OtlpSpan } from '../../src/model/otlp/span.ts';

/** How the server answers one request. */
export type Reaction =
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: Buffer | string;
    }
  /** The connection breaks without an answer. */
  | 'reset'
  /** No answer comes, ever. */
  | 'hang'
  /** The answer's head comes, and a body without end. */
  | 'flood';

export type Received = {
  readonly path: string;
  /** The client's, which tells connections apart. */
  readonly port: number | undefined;
  readonly headers: IncomingMessage['headers'];
  /** As it came over the wire. */
  readonly body: Buffer;
  /** Decoded, whatever its compression and encoding. */
  readonly spans: readonly OtlpSpan[];
};

/** An OTLP/HTTP server that does as a test tells it, and notes all it is sent. */
export type OtlpServer = {
  readonly url: string;
  readonly requests: readonly Received[];
  /** The next answers, in order; after them the usual one. */
  next(...reactions: readonly Reaction[]): void;
  /** The usual answer from now on. */
  always(reaction: Reaction | ((request: Received) => Reaction)): void;
  /** Resolves when this many requests have come in all. */
  received(count: number): Promise<readonly Received[]>;
  close(): Promise<void>;
};

export const ACCEPTED: Reaction = {
  status: 200,
  headers: { 'content-type': 'application/x-protobuf' },
};

/** A partial success in OTLP's JSON form. */
export function partialSuccess(rejectedSpans: number, errorMessage: string): Reaction {
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      partialSuccess: { rejectedSpans: String(rejectedSpans), errorMessage },
    }),
  };
}

export async function startOtlpServer(
  t: { teardown(clean: () => Promise<void>): void },
  /** Serves https with these. */
  tls?: SecureServerOptions,
): Promise<OtlpServer> {
  const requests: Received[] = [];
  const script: Reaction[] = [];
  const sockets = new Set<Socket>();
  const waiting = new Set<() => void>();
  let usual: Reaction | ((request: Received) => Reaction) = ACCEPTED;
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const received = receivedFrom(request, Buffer.concat(chunks));
      requests.push(received);
      react(script.shift() ?? (typeof usual === 'function' ? usual(received) : usual), response);
      for (const tell of waiting) tell();
    });
  };
  const server = tls === undefined ? createServer(serve) : createSecureServer(tls, serve);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  t.teardown(close);
  return {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    next: (...reactions) => void script.push(...reactions),
    always(reaction) {
      usual = reaction;
    },
    received: (count) =>
      new Promise((resolve) => {
        const tell = (): void => {
          if (requests.length < count) return;
          waiting.delete(tell);
          resolve(requests);
        };
        waiting.add(tell);
        tell();
      }),
    close,
  };
}

function react(reaction: Reaction, response: ServerResponse): void {
  if (reaction === 'hang') return;
  if (reaction === 'reset') {
    response.socket?.destroy();
    return;
  }
  if (reaction === 'flood') {
    response.writeHead(503, { 'content-type': 'text/plain' });
    const pour = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536, 'x')));
      if (!response.destroyed) response.once('drain', pour);
    };
    pour();
    return;
  }
  response.writeHead(reaction.status, { ...reaction.headers });
  response.end(reaction.body ?? '');
}

function receivedFrom(request: IncomingMessage, body: Buffer): Received {
  const { headers, url = '' } = request;
  return {
    path: url,
    port: request.socket.remotePort,
    headers,
    body,
    spans: spansOf(headers, body),
  };
}

function spansOf(headers: IncomingMessage['headers'], body: Buffer): OtlpSpan[] {
  const inflated = inflate(body, headers['content-encoding']);
  const format = headers['content-type'] === 'application/json' ? 'otlp_json' : 'otlp_proto';
  const index = scan(format, inflated, { maxItems: 1e6 }) as OtlpIndex;
  return Array.from({ length: index.count }, (_, position) => spanAt(index, position));
}

function inflate(body: Buffer, encoding: string | undefined): Buffer {
  if (encoding === 'gzip') return gunzipSync(body);
  return encoding === 'zstd' ? zstdDecompressSync(body) : body;
}
