import type { ClientHttp2Session, ClientHttp2Stream, ClientSessionOptions } from 'node:http2';
import { connect } from 'node:http2';
import type { ConnectionOptions } from 'node:tls';
import type { ClientOptions, ServiceError } from '@grpc/grpc-js';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import type { Test } from 'tap';

export const EXPORT_LOGS = '/opentelemetry.proto.collector.logs.v1.LogsService/Export';
export const EXPORT = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';

/** How a call ended: its code, and the message or what was said of the refusal. */
type CallEnd = {
  readonly code: number;
  readonly details: string;
  readonly message: Buffer;
  readonly metadata: Metadata;
  /** Milliseconds of the RetryInfo; undefined where there is none. */
  readonly retryAfterMs: number | undefined;
};

type CallOptions = {
  readonly path?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly deadlineMs?: number;
  /** Cancels the call when it resolves. */
  readonly cancel?: Promise<unknown>;
};

export type GrpcClient = {
  call(message: Buffer, options?: CallOptions): Promise<CallEnd>;
  close(): void;
};

/** A real client that sends and shows messages as they are. `url` is `http://127.0.0.1:4317`. */
export function grpcClient(
  t: Test,
  url: string,
  options: ClientOptions = {},
  creds = credentials.createInsecure(),
): GrpcClient {
  const client = new Client(new URL(url).host, creds, {
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_retries': 0,
    ...options,
  });
  t.teardown(() => client.close());
  const asItIs = (message: Buffer): Buffer => message;
  return {
    call(message, { path = EXPORT, metadata = {}, deadlineMs, cancel } = {}) {
      const sent = new Metadata();
      for (const name in metadata) sent.add(name, metadata[name] ?? '');
      return new Promise((resolve) => {
        const given = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
        const done = (error: ServiceError | null, value?: Buffer): void =>
          resolve(error === null ? ended(0, '', value ?? NONE, new Metadata()) : failed(error));
        const call = client.makeUnaryRequest(path, asItIs, asItIs, message, sent, given, done);
        void cancel?.then(() => call.cancel());
      });
    },
    close: () => client.close(),
  };
}

/** Compresses what it sends. */
export const GZIP: ClientOptions = { 'grpc.default_compression_algorithm': 2 };

const NONE = Buffer.alloc(0);

function failed({ code, details, metadata }: ServiceError): CallEnd {
  return ended(code, details, NONE, metadata);
}

function ended(code: number, details: string, message: Buffer, metadata: Metadata): CallEnd {
  const [status] = metadata.get('grpc-status-details-bin');
  const retryAfterMs = Buffer.isBuffer(status) ? retryInfo(status) : undefined;
  return { code, details, message, metadata, retryAfterMs };
}

const STATUS = protobuf.parse(`syntax = "proto3";
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message Any { string type_url = 1; bytes value = 2; }
  message RetryInfo { Duration retry_delay = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }`).root;

function retryInfo(bytes: Buffer): number {
  type Any = { typeUrl: string; value: Buffer };
  const { details } = decode<{ details: Any[] }>('Status', bytes);
  const found = details.find(
    ({ typeUrl }) => typeUrl === 'type.googleapis.com/google.rpc.RetryInfo',
  );
  if (found === undefined) throw new Error('the status has no RetryInfo');
  type Info = { retryDelay: { seconds: number; nanos: number } };
  const { retryDelay } = decode<Info>('RetryInfo', found.value);
  return retryDelay.seconds * 1000 + retryDelay.nanos / 1e6;
}

function decode<T>(type: string, bytes: Buffer): T {
  const decoded = STATUS.lookupType(type);
  return decoded.toObject(decoded.decode(bytes), { longs: Number, defaults: true }) as T;
}

/** A call of bare HTTP/2, for what no gRPC client would send. */
export type BareCall = {
  readonly stream: ClientHttp2Stream;
  /** The headers and trailers that came, when they say how the call ended, or the stream is closed. */
  readonly end: Promise<Readonly<Record<string, string>>>;
};

/** Headers of which HTTP has one may come more than once; the types do not know the option yet. */
const LENIENT = { strictSingleValueFields: false } as ClientSessionOptions;

/** `headers` are names and values in turn, as many of a name as wanted. */
export function bareClient(
  t: Test,
  url: string,
  more: ConnectionOptions & Pick<ClientSessionOptions, 'createConnection'> = {},
) {
  const session: ClientHttp2Session = connect(url, { ...LENIENT, ...more });
  session.on('error', () => {});
  t.teardown(() => session.destroy());
  return {
    session,
    call(headers: readonly string[] = [], path = EXPORT): BareCall {
      const usual = [':method', 'POST', ':path', path, ':scheme', 'http', ':authority', 'test'];
      const own = headers.includes('content-type') ? [] : ['content-type', 'application/grpc'];
      const stream = session.request([...usual, ...own, 'te', 'trailers', ...headers] as never);
      const found: Record<string, string> = {};
      const note = (more: object): void => {
        for (const [name, value] of Object.entries(more)) found[name] = String(value);
      };
      stream
        .on('response', note)
        .on('trailers', note)
        .on('error', () => {});
      stream.resume();
      return { stream, end: new Promise((resolve) => stream.on('close', () => resolve(found))) };
    },
  };
}

/** A message on the wire. */
export function framed(message: Buffer, flag = 0, length = message.length): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flag, 0);
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, message]);
}
