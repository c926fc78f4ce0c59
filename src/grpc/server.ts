import type {
  Http2Server,
  IncomingHttpHeaders,
  OutgoingHttpHeaders,
  ServerHttp2Session,
  ServerHttp2Stream,
  ServerOptions,
} from 'node:http2';
import { constants } from 'node:http2';
import type { Socket } from 'node:net';
import type { handleClientStreamingCall } from '@grpc/grpc-js';
import type { Clock, Logger } from '../component/component.ts';
import { gaveWay, Refusal } from '../model/errors.ts';
import { clientAddresses, trustedPeers } from '../net/client-address.ts';
import type { ConnectionPart } from '../net/connection-key.ts';
import type { ConnectionPlaces } from '../net/connection-places.ts';
import { clientNetwork } from '../net/network.ts';
import { turnsOf } from '../net/turns.ts';
import { boundAnswer } from './answered-stream.ts';
import type { Arrival, GrpcMethod } from './call.ts';
import { grpcCall } from './call.ts';
import type { GrpcLimits } from './config.ts';
import { HANDSHAKE_MS, LONGEST_TIMER_MS } from './config.ts';
import type { Watch } from './frame-floods.ts';
import { frameFloods } from './frame-floods.ts';
import { refusedCalls } from './refused-calls.ts';
import { grpcStatusOf } from './status.ts';
import type { StreamPlaces } from './stream-places.ts';
import { streamPlaces } from './stream-places.ts';

/**
 * A gRPC server without a port: it accepts open connections and calls its methods with raw messages.
 *
 *   connection ─▶ @grpc/grpc-js: HTTP/2, method, deadline ─▶ call.ts: head ─▶ handler ─▶ status
 *
 * Methods are registered as client-streaming ones, because the library calls those before it reads the message:
 * the handler decides on the head first. On the wire they are the same.
 */
export type GrpcServer = {
  /** Serves the connection from now on. */
  accept(connection: Socket): void;
  /** Accepts no more calls. Resolves when the calls in progress are answered and the connections closed. */
  drain(): Promise<void>;
};

export type GrpcServerOptions = {
  readonly methods: readonly GrpcMethod[];
  readonly limits: GrpcLimits;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Marks the connection of a peer as busy until the place is left. */
  readonly occupy: ConnectionPlaces['occupy'];
  /** The client that a proxy named for the connection, or the peer. */
  readonly peerOf: (part: ConnectionPart) => string;
};

const TOO_MANY = new Refusal('unavailable', 'Too many calls are in progress. Try again.', {
  retryAfterMs: 1000,
});

/** The status of a call of an unknown method. */
const UNIMPLEMENTED = 12;

/** Loads the library, so that configurations without gRPC do not. */
export async function createGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const { Server, ServerCredentials, Metadata, setLogVerbosity, logVerbosity } = await import(
    '@grpc/grpc-js'
  );
  // Else a client could make the library write to standard error.
  setLogVerbosity(logVerbosity.NONE);
  const clientOf = clientAddresses(options.limits.trustedProxies ?? []);
  const server = new Server(libraryOptions(options.limits));
  boundFrames(server, options.limits);
  const inProgress = new Set<Promise<void>>();
  const connections = new Map<Socket, Promise<void>>();
  let arriving: Arrival | undefined;
  let isDraining = false;

  for (const method of options.methods) {
    const handle: handleClientStreamingCall<Buffer, Buffer> = (call, answer) => {
      const arrival = arriving;
      arriving = undefined;
      if (arrival === undefined) throw new Error('a call arrived without its stream');
      const incoming = grpcCall({ arrival, call, answer, Metadata, method, clientOf, ...options });
      const done = method
        .handler(incoming)
        .catch((error: unknown) => {
          options.logger.error({ err: error, path: method.path }, 'Call could not be answered');
        })
        .finally(() => inProgress.delete(done));
      inProgress.add(done);
    };
    server.addService(serviceOf(method.path), { call: handle });
  }

  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const http2 = http2ServerOf(server);
  const inject = (connection: Socket): void => injector.injectConnection(connection);
  const entry = watchedEntry(http2, inject, options);
  serveStreams(http2, options, entry.watchOf, (arrival) => {
    arriving = arrival;
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
      entry.enter(connection, cancel);
    },
    async drain() {
      isDraining = true;
      entry.close();
      // The library asks every connection to close; on some versions of Node it does not wait for that.
      server.tryShutdown(() => {});
      await Promise.all([...connections.values(), ...inProgress]);
    },
  };
}

/** Passes connections to the library, watches their frames, and lets those of a network wait that had a flood. */
function watchedEntry(
  http2: Http2Server,
  inject: (connection: Socket) => void,
  { clock, limits, peerOf }: GrpcServerOptions,
) {
  const floods = frameFloods(clock);
  const watches = new WeakMap<object, Watch>();
  const isShared = trustedPeers(limits.trustedProxies ?? []);
  const waiting = new Set<Socket>();

  function begin(connection: Socket, network: string | undefined, onSettings: () => void): void {
    const opened = (session: ServerHttp2Session): void => {
      session.once('remoteSettings', onSettings);
      const watch = floods.watch(connection, network, () => cut(session));
      watches.set(session, watch);
      connection.once('close', () => watch.end());
    };
    http2.once('session', opened);
    inject(connection);
    http2.off('session', opened);
  }

  return {
    watchOf: (session: object | undefined) => session && watches.get(session),
    enter(connection: Socket, onSettings: () => void): void {
      const peer = peerOf(connection);
      const network = isShared(peer) ? undefined : clientNetwork(peer);
      const penalty = floods.penaltyOf(network);
      if (penalty === 0) {
        begin(connection, network, onSettings);
        return;
      }
      waiting.add(connection);
      const cancel = clock.after(penalty, () => {
        waiting.delete(connection);
        begin(connection, network, onSettings);
      });
      connection.once('close', () => {
        waiting.delete(connection);
        cancel();
      });
    },
    close(): void {
      for (const connection of waiting) connection.destroy();
    },
  };
}

/** Calls that begin in one turn of the event loop. */
const CALLS_PER_TURN = 16;

/** Passes streams with a place to the library, a few in each turn of the event loop, and refuses the others. */
function serveStreams(
  http2: Http2Server,
  options: GrpcServerOptions,
  watchOf: (session: object | undefined) => Watch | undefined,
  announce: (arrival: Arrival) => void,
): void {
  const serve = libraryListener(http2);
  const places = streamPlaces(streamBounds(options.limits));
  const refused = refusedCalls(options.clock);
  const methods = new Set(options.methods.map(({ path }) => path));
  const turns = turnsOf(CALLS_PER_TURN);
  http2.on('stream', (stream: ServerHttp2Stream, headers, flags, rawHeaders) => {
    // A broken stream may emit several errors; each would end the process without a listener.
    stream.on('error', () => {});
    const meant = misdirected(headers, methods);
    const place = meant === undefined ? enter(stream, places, options) : undefined;
    if (place === undefined) {
      if (refused.isTooMany(stream.session)) cut(stream.session);
      else refuseStream(stream, meant ?? tooManyCalls());
      return;
    }
    const end = refused.begin(stream.session);
    stream.once('close', () => {
      place.leave();
      end();
    });
    boundAnswer(stream, options.clock);
    countMessage(stream, watchOf(stream.session));
    // Hidden from the library, so that it does not inflate messages: ingestion does, within its limits.
    delete headers['grpc-encoding'];
    if (isBeyondTimers(headers['grpc-timeout'])) delete headers['grpc-timeout'];
    turns
      .laneOf(stream.session ?? stream, () => networkOf(stream, options))
      .take(() => {
        // A call that its client reset takes no place: the calls of others would wait behind thousands of them.
        if (stream.closed) return false;
        announce({ stream, rawHeaders, yields: place.yields });
        serve.call(http2, stream, headers, flags, rawHeaders);
        return true;
      });
  });
}

/** Counts the bytes of a call where Node hands them over, also those that are not read yet. */
function countMessage(stream: ServerHttp2Stream, watch: Watch | undefined): void {
  if (watch === undefined) return;
  watch.call();
  const { push } = stream;
  stream.push = (chunk: Uint8Array | null, ...more) => {
    if (chunk !== null) watch.message(chunk.length);
    return push.call(stream, chunk, ...more);
  };
}

const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000 };

/** Whether the deadline of a call is later than timers reach. The library would end such a call at once. */
function isBeyondTimers(timeout: unknown): boolean {
  const [, amount, unit = ''] = /^(\d{1,8})([HMS])$/.exec(String(timeout)) ?? [];
  return Number(amount) * (UNIT_MS[unit] ?? 0) > LONGEST_TIMER_MS;
}

type StreamListener = (
  this: Http2Server,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  flags: number,
  rawHeaders: string[],
) => void;

/** Takes the library's listener off, so that streams reach it only with a place. */
function libraryListener(http2: Http2Server): StreamListener {
  const [listener] = http2.listeners('stream');
  if (listener === undefined)
    throw new Error('this version of @grpc/grpc-js is not supported: it takes no streams');
  http2.removeAllListeners('stream');
  return listener as StreamListener;
}

function streamBounds({ maxStreams, maxStreamsPerAddress, trustedProxies = [] }: GrpcLimits) {
  const isShared = trustedPeers(trustedProxies);
  return { max: maxStreams, maxPerAddress: maxStreamsPerAddress, isShared };
}

/** The parts of the connection of a stream that name it. */
function partOf({ session }: ServerHttp2Stream): ConnectionPart {
  const { remoteAddress, remotePort, localAddress } = session?.socket ?? {};
  return { remoteAddress, remotePort, localAddress };
}

function networkOf(stream: ServerHttp2Stream, { peerOf }: GrpcServerOptions): string {
  return clientNetwork(peerOf(partOf(stream)));
}

/** The places that a stream takes, of the server and of its connection, to be left when it is closed. */
function enter(
  stream: ServerHttp2Stream,
  places: StreamPlaces,
  { occupy, peerOf }: GrpcServerOptions,
): (Pick<Arrival, 'yields'> & { leave(): void }) | undefined {
  const part = partOf(stream);
  const leave = places.enter(peerOf(part));
  if (leave === undefined) return undefined;
  const ofConnection = occupy(part);
  return {
    yields: (end) =>
      ofConnection.yields(() => {
        end(gaveWay());
        // It ends with the answers to its calls.
        stream.session?.close();
      }),
    leave() {
      leave();
      ofConnection.leave();
    },
  };
}

/** Ends a connection whose calls only cost time: the calls that already arrived are not looked at any more. */
function cut(session: ServerHttp2Stream['session']): void {
  session?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  session?.destroy();
}

/** The answer to a stream that is no call of a method. The library would give the same, but for other methods of HTTP, which it serves. */
function misdirected(
  headers: IncomingHttpHeaders,
  methods: ReadonlySet<string>,
): OutgoingHttpHeaders | undefined {
  if (headers['content-type']?.startsWith('application/grpc') !== true) return { ':status': 415 };
  if (headers[':method'] !== 'POST') return { ':status': 405, allow: 'POST' };
  const path = headers[':path'] ?? '';
  if (methods.has(path)) return undefined;
  return {
    ':status': 200,
    'content-type': 'application/grpc+proto',
    'grpc-status': UNIMPLEMENTED,
    'grpc-message': `The server does not implement the method ${encodeURI(path)}`,
  };
}

function tooManyCalls(): OutgoingHttpHeaders {
  const { code, details, statusDetails } = grpcStatusOf(TOO_MANY);
  return {
    ':status': 200,
    'content-type': 'application/grpc',
    'grpc-status': code,
    'grpc-message': details,
    ...(statusDetails && { 'grpc-status-details-bin': statusDetails.toString('base64') }),
  };
}

/** Answers without the library, at a small part of its cost. */
function refuseStream(stream: ServerHttp2Stream, answer: OutgoingHttpHeaders): void {
  stream.respond(answer, { endStream: true });
  // When the answer is written, and not together with thousands of others after a time, which would delay others.
  setImmediate(() => stream.close());
}

function serviceOf(path: string) {
  const unchanged = (message: Buffer): Buffer => message;
  return {
    call: {
      path,
      requestStream: true,
      responseStream: false,
      requestSerialize: unchanged,
      requestDeserialize: unchanged,
      responseSerialize: unchanged,
      responseDeserialize: unchanged,
    },
  };
}

function libraryOptions(limits: GrpcLimits) {
  return {
    // call.ts checks and reserves message sizes, and answers with its own refusals.
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

/** Calls for each place of a connection that its client may cancel at once: a client cancels all of them when their deadline passes. */
const CANCELLED_PER_PLACE = 2;
/** On a listener with few places, a client has many more calls, whose deadlines pass one group of places after the other. */
const LEAST_CANCELLED = 100;

/**
 * Bounds the calls that a client resets at once, and in each second from then on: deadlines of half a second may all pass. To begin a call and reset it costs 50 µs, and Node's
 * bound of 1,000 holds the event loop for as many of them as one read of a connection has.
 *
 * The same number bounds the frames against the protocol of a connection, such as pseudo headers among trailers, which cost up to 350 µs. It
 * is not less, because the first calls of a client that does not know its number of places yet count, too.
 */
function boundFrames(server: object, { maxConcurrentStreams }: GrpcLimits): void {
  const { commonServerOptions: settings } = server as { commonServerOptions?: ServerOptions };
  if (settings === undefined)
    throw new Error(
      'this version of @grpc/grpc-js is not supported: it has no commonServerOptions',
    );
  settings.streamResetBurst = Math.max(CANCELLED_PER_PLACE * maxConcurrentStreams, LEAST_CANCELLED);
  settings.streamResetRate = settings.streamResetBurst;
  settings.maxSessionInvalidFrames = settings.streamResetBurst;
}

/** The library's HTTP/2 server, which is not public. Only its streams show repeated headers. */
function http2ServerOf(server: object): Http2Server {
  const { http2Servers } = server as { http2Servers?: Map<Http2Server, unknown> };
  const [http2] = http2Servers?.keys() ?? [];
  if (http2 === undefined)
    throw new Error('this version of @grpc/grpc-js is not supported: it has no http2Servers');
  return http2;
}
