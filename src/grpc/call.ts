import type { ServerHttp2Stream } from 'node:http2';
import type { Metadata as MetadataClass, ServerReadableStream, sendUnaryData } from '@grpc/grpc-js';
import type { Clock, RequestHead } from '../component/component.ts';
import { ClientGone, COPIES, expectBody, largestBody, tooLarge } from '../http/body.ts';
import { bodyPace } from '../http/body-pace.ts';
import type { ByteReservation } from '../http/bytes-in-flight.ts';
import type { Incoming, ReceivedBody } from '../http/ingest.ts';
import type { SentEncoding } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import { ownMemoryOf } from '../model/own-memory.ts';
import type { clientAddresses } from '../net/client-address.ts';
import type { GrpcLimits } from './config.ts';
import type { GrpcServerOptions } from './server.ts';
import { grpcStatusOf } from './status.ts';

/** A method of the server. */
export type GrpcMethod = {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** Bytes; a larger message is refused before it is read. */
  readonly maxBytes: number;
  /** Answers its own failures. */
  readonly handler: (incoming: Incoming) => Promise<void>;
};

/** The HTTP/2 stream of a call, with the parts that the library does not pass on. */
export type Arrival = {
  readonly stream: ServerHttp2Stream;
  /** Names and values alternate; a repeated header is repeated here. */
  readonly rawHeaders: readonly string[];
  /** While its message arrives. */
  readonly yields: (end: (refusal: Refusal) => void) => () => void;
};

type CallOptions = {
  readonly arrival: Arrival;
  readonly call: ServerReadableStream<Buffer, Buffer>;
  readonly answer: sendUnaryData<Buffer>;
  readonly Metadata: typeof MetadataClass;
  readonly method: GrpcMethod;
  readonly limits: GrpcLimits;
  readonly clock: Clock;
  readonly peerOf: GrpcServerOptions['peerOf'];
  /** The client of a peer and the headers of its call. */
  readonly clientOf: ReturnType<typeof clientAddresses>;
};

/** One byte for the compression flag, and four for the length of the message. */
const PREFIX_BYTES = 5;
/** Bytes of a message that are reserved together. */
const STEP_BYTES = 65_536;
const ACCEPTED_ENCODINGS = 'identity,deflate,gzip';

/** A call, as ingestion reads and answers it. */
export function grpcCall(options: CallOptions): Incoming {
  const { call, answer, Metadata, clock } = options;
  let isAnswered = false;
  return {
    head: headOf(options, clock.now()),
    params: {},
    read: (reservation, encoding) => readMessage(options, reservation, encoding),
    answer({ body }) {
      if (isAnswered) return;
      isAnswered = true;
      call.sendMetadata(encodings(Metadata));
      answer(null, typeof body === 'string' ? Buffer.from(body) : body);
    },
    refuse(refusal) {
      if (isAnswered) return;
      isAnswered = true;
      const { code, details, statusDetails } = grpcStatusOf(refusal);
      const metadata = encodings(Metadata);
      if (statusDetails !== undefined) metadata.set('grpc-status-details-bin', statusDetails);
      answer({ code, details, metadata });
    },
  };
}

/** The supported encodings; the library would announce others. */
function encodings(Metadata: typeof MetadataClass): MetadataClass {
  const metadata = new Metadata();
  metadata.set('grpc-accept-encoding', ACCEPTED_ENCODINGS);
  return metadata;
}

function headOf({ arrival, method, peerOf, clientOf }: CallOptions, now: number): RequestHead {
  const { stream, rawHeaders } = arrival;
  const headers = new Map<string, string[]>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.startsWith(':')) continue;
    const values = headers.get(name);
    if (values === undefined) headers.set(name, [rawHeaders[i + 1] ?? '']);
    else values.push(rawHeaders[i + 1] ?? '');
  }
  const socket = stream.session?.socket;
  return {
    transport: 'grpc',
    method: 'POST',
    path: method.path,
    headers,
    remoteAddress: clientOf(socket === undefined ? '' : peerOf(socket), headers),
    receivedAt: now,
    // The prefix of the message has its size.
    declaredBytes: undefined,
  };
}

/**
 * Reads the one message of a call. Its prefix has its size, which is checked before the rest arrives. The bytes are
 * reserved as they arrive; while the call waits for them, the client is stopped by HTTP/2's flow control.
 */
function readMessage(
  { arrival, call, method, limits, clock }: CallOptions,
  reservation: ByteReservation,
  encoding: SentEncoding,
): Promise<ReceivedBody> {
  const { promise, resolve, reject } = Promise.withResolvers<ReceivedBody>();
  const { stream } = arrival;
  const frame = new Frame();
  const maxBytes = Math.min(method.maxBytes, largestBody(reservation));
  let message: Buffer | undefined;
  let isOver = false;

  // Runs before the library's own listener, so that a message that is too large is not buffered.
  const onChunk = (chunk: Buffer): void => {
    try {
      pace.arrived(chunk.length);
      if (frame.take(chunk)) {
        if (frame.length > maxBytes) throw tooLarge('message', maxBytes);
        expectBody(reservation, frame.length, frame.encoding(encoding));
      }
      const more = steps(frame.received, frame.length) * COPIES - reservation.held;
      const waiting = more > 0 ? reservation.obtain(more) : undefined;
      if (waiting === undefined) return;
      stream.pause();
      pace.pause();
      waiting.then(goOn, giveUp);
    } catch (error) {
      giveUp(error);
    }
  };
  const goOn = (): void => {
    if (isOver) return;
    pace.resume();
    stream.resume();
  };
  const onMessage = (bytes: Buffer): void => {
    message = bytes;
  };
  const onEnd = (): void => {
    try {
      if (message === undefined) throw malformed('The call ended within its message.');
      // The message shares its memory with others, and threads get only its own.
      const body = ownMemoryOf(message, PREFIX_BYTES);
      const received = { body, encoding: frame.encoding(encoding) };
      stop();
      resolve(received);
    } catch (error) {
      giveUp(error);
    }
  };
  const onGone = (): void => {
    giveUp(new ClientGone('the client disconnected before its message was complete'));
  };
  const giveUp = (reason: unknown): void => {
    if (isOver) return;
    stop();
    reject(reason);
  };
  const stop = (): void => {
    isOver = true;
    cancelTimeout();
    pace.stop();
    keepBytes();
    keepPlace();
    stream.off('data', onChunk);
    call.off('data', onMessage);
    call.off('end', onEnd);
    call.off('cancelled', onGone);
  };
  const cancelTimeout = clock.after(limits.readTimeout, () =>
    giveUp(new Refusal('request_timeout', 'The message took too long to arrive.')),
  );
  const pace = bodyPace(limits.bodyRate, clock, giveUp);
  const keepBytes = reservation.yields(giveUp);
  const keepPlace = arrival.yields(giveUp);
  if (call.cancelled || stream.destroyed) {
    onGone();
    return promise;
  }
  stream.prependListener('data', onChunk);
  call.on('cancelled', onGone);
  call.on('end', onEnd);
  call.on('data', onMessage);
  return promise;
}

/** Bytes to reserve for a message of which so many have arrived: in steps, so that not every chunk reserves. */
function steps(received: number, length: number): number {
  return Math.min(Math.max(length, received), Math.ceil(received / STEP_BYTES) * STEP_BYTES);
}

/** The framing of a message, chunk by chunk. */
class Frame {
  readonly #prefix = Buffer.alloc(PREFIX_BYTES);
  #received = 0;

  /** True if this chunk completes the prefix. Throws if a second message follows. */
  take(chunk: Buffer): boolean {
    const before = this.#received;
    this.#received += chunk.length;
    if (before < PREFIX_BYTES) {
      chunk.copy(this.#prefix, before, 0, PREFIX_BYTES - before);
      if (this.#received < PREFIX_BYTES) return false;
    }
    if (this.#received > PREFIX_BYTES + this.length) {
      throw malformed('A call has one message.');
    }
    return before < PREFIX_BYTES;
  }

  get received(): number {
    return this.#received;
  }

  /** Bytes of the message; 0 before the prefix is complete. */
  get length(): number {
    return this.#prefix.readUInt32BE(1);
  }

  /** The compression of the message; `encoding` is that of the call's headers. */
  encoding(encoding: SentEncoding): SentEncoding {
    const flag = this.#prefix[0];
    if (flag === 0) return 'identity';
    if (flag === 1 && encoding !== 'identity') return encoding;
    throw malformed(
      'The message is flagged as compressed, but grpc-encoding names no compression.',
    );
  }
}

function malformed(message: string): Refusal {
  return new Refusal('invalid_request', message);
}
