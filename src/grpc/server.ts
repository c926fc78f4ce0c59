import type { Http2Server, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Duplex } from 'node:stream';
import type { handleClientStreamingCall } from '@grpc/grpc-js';
import type { Clock, Logger } from '../component/component.ts';
import type { Incoming } from '../http/ingest.ts';
import { grpcCall } from './call.ts';

/**
 * A gRPC server without a port: it is handed connections, and calls its methods with raw messages.
 *
 *   connection ─▶ @grpc/grpc-js: HTTP/2, method, deadline ─▶ call.ts: head ─▶ handler ─▶ status
 *
 * To the library a method is one that streams, because it calls those with the metadata alone: so the
 * handler decides before a byte of the message is read. On the wire there is no difference.
 */
export type GrpcServer = {
  /** Takes a connection over. */
  accept(connection: Duplex): void;
  /** Takes no more calls, and resolves when those under way are answered and the connections closed. */
  drain(): Promise<void>;
};

export type GrpcMethod = {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Bytes of a message; one more is refused before it is read. */
  readonly maxBytes: number;
  /** Answers its own failures. */
  readonly handler: (incoming: Incoming) => Promise<void>;
};

/** Milliseconds, where they are not counts. */
export type GrpcLimits = {
  readonly maxConnections: number;
  readonly maxConcurrentStreams: number;
  readonly readTimeout: number;
  readonly maxConnectionIdle: number;
  readonly maxConnectionAge: number;
  readonly maxConnectionAgeGrace: number;
  readonly keepaliveTime: number;
  readonly keepaliveTimeout: number;
};

export type GrpcServerOptions = {
  readonly methods: readonly GrpcMethod[];
  readonly limits: GrpcLimits;
  readonly clock: Clock;
  readonly logger: Logger;
};

/** A call as HTTP/2 knows it: what the library does not hand on. */
export type Arrival = {
  readonly stream: ServerHttp2Stream;
  /** Names and values in turn, also those that came more than once. */
  readonly rawHeaders: readonly string[];
};

/** How long a new connection may take until it speaks HTTP/2. Milliseconds. */
const HANDSHAKE_MS = 10_000;

/** The library is loaded with the first server, so that nobody else pays for it. */
export async function createGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { Server, ServerCredentials, Metadata, setLogVerbosity, logVerbosity } = await import(
    '@grpc/grpc-js'
  );
  // It would write to standard error what a client can cause.
  setLogVerbosity(logVerbosity.NONE);
  const server = new Server(libraryOptions(options.limits));
  const underWay = new Set<Promise<void>>();
  const connections = new Map<Duplex, Promise<void>>();
  let arriving: Arrival | undefined;
  let isDraining = false;

  for (const method of options.methods) {
    const handle: handleClientStreamingCall<Buffer, Buffer> = (call, answer) => {
      const arrival = arriving;
      arriving = undefined;
      if (arrival === undefined) throw new Error('a call arrived without its stream');
      const incoming = grpcCall({ arrival, call, answer, Metadata, method, ...options });
      const done = method
        .handler(incoming)
        .catch((error: unknown) => {
          options.logger.error({ err: error, path: method.path }, 'a call could not be answered');
        })
        .finally(() => underWay.delete(done));
      underWay.add(done);
    };
    server.addService(serviceOf(method.path), { call: handle });
  }

  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const http2 = http2ServerOf(server);
  http2.prependListener('stream', (stream: ServerHttp2Stream, headers, _flags, rawHeaders) => {
    // A stream that breaks may say so more than once, and each would end the process.
    stream.on('error', () => {});
    // A message stays as it was compressed: it is inflated with all others, within their limits.
    delete headers['grpc-encoding'];
    arriving = { stream, rawHeaders: rawHeaders };
  });
  return {
    accept(connection) {
      if (isDraining) {
        connection.destroy();
        return;
      }
      const cancel = options.clock.after(HANDSHAKE_MS, () => connection.destroy());
      const closed = new Promise<void>((resolve) => connection.once('close', () => resolve()));
      connections.set(connection, closed);
      connection.once('close', () => {
        cancel();
        connections.delete(connection);
      });
      const opened = (session: ServerHttp2Session): void => {
        session.once('remoteSettings', cancel);
      };
      http2.once('session', opened);
      injector.injectConnection(connection);
      http2.off('session', opened);
    },
    async drain() {
      isDraining = true;
      // The library asks every connection to go, and on some versions of Node does not wait for it.
      server.tryShutdown(() => {});
      await Promise.all([...connections.values(), ...underWay]);
    },
  };
}

function serviceOf(path: string) {
  const asItIs = (message: Buffer): Buffer => message;
  return {
    call: {
      path,
      requestStream: true,
      responseStream: false,
      requestSerialize: asItIs,
      requestDeserialize: asItIs,
      responseSerialize: asItIs,
      responseDeserialize: asItIs,
    },
  };
}

function libraryOptions(limits: GrpcLimits) {
  return {
    // Sizes are looked at in call.ts, which also reserves them; the library would only answer otherwise.
    'grpc.max_receive_message_length': -1,
    'grpc.max_concurrent_streams': limits.maxConcurrentStreams,
    'grpc.max_connection_idle_ms': limits.maxConnectionIdle,
    'grpc.max_connection_age_ms': limits.maxConnectionAge,
    'grpc.max_connection_age_grace_ms': limits.maxConnectionAgeGrace,
    'grpc.keepalive_time_ms': limits.keepaliveTime,
    'grpc.keepalive_timeout_ms': limits.keepaliveTimeout,
    'grpc.enable_channelz': 0,
  };
}

/** The library has no public way to its HTTP/2 server, without which repeated headers stay unseen. */
function http2ServerOf(server: object): Http2Server {
  const { http2Servers } = server as { http2Servers?: Map<Http2Server, unknown> };
  const [http2] = http2Servers?.keys() ?? [];
  if (http2 === undefined) throw new Error('this version of @grpc/grpc-js is not understood');
  return http2;
}
