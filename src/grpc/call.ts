import type { Metadata as MetadataClass, ServerReadableStream, sendUnaryData } from '@grpc/grpc-js';
import type { Clock, RequestHead } from '../component/component.ts';
import type { ByteReservation } from '../http/admission.ts';
import { ClientGone, COPIES } from '../http/body.ts';
import type { Incoming, ReceivedBody } from '../http/ingest.ts';
import { tooLarge } from '../http/too-large.ts';
import type { Encoding } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import type { Arrival, GrpcLimits, GrpcMethod } from './server.ts';
import { grpcStatusOf } from './status.ts';

type CallOptions = {
  readonly arrival: Arrival;
  readonly call: ServerReadableStream<Buffer, Buffer>;
  readonly answer: sendUnaryData<Buffer>;
  readonly Metadata: typeof MetadataClass;
  readonly method: GrpcMethod;
  readonly limits: GrpcLimits;
  readonly clock: Clock;
};

/** A byte that says whether the message is compressed, and four with its length. */
const PREFIX_BYTES = 5;
/** How long a client may go on to send a message that is refused already. Milliseconds. */
const LINGER_MS = 1_000;
const ACCEPTED_ENCODINGS = 'identity,gzip';

/** A call on its way to be ingested. */
export function grpcCall(options: CallOptions): Incoming {
  const { arrival, call, answer, Metadata, method, clock } = options;
  const { stream } = arrival;
  let isAnswered = false;
  return {
    head: headOf(arrival, method.path, clock.now()),
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
      if (stream.readableEnded) return;
      // Whatever still comes is thrown away, for a moment: then the client is told to stop.
      const cancel = clock.after(LINGER_MS, () => stream.close());
      stream.once('close', cancel);
    },
  };
}

/** What a client may send, as against what the library would say. */
function encodings(Metadata: typeof MetadataClass): MetadataClass {
  const metadata = new Metadata();
  metadata.set('grpc-accept-encoding', ACCEPTED_ENCODINGS);
  return metadata;
}

function headOf({ stream, rawHeaders }: Arrival, path: string, now: number): RequestHead {
  const headers = new Map<string, string[]>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (name.startsWith(':')) continue;
    const values = headers.get(name);
    if (values === undefined) headers.set(name, [rawHeaders[i + 1] ?? '']);
    else values.push(rawHeaders[i + 1] ?? '');
  }
  return {
    transport: 'grpc',
    method: 'POST',
    path,
    headers,
    remoteAddress: stream.session?.socket.remoteAddress ?? '',
    receivedAt: now,
    // A message says its size itself, when it comes.
    declaredBytes: undefined,
  };
}

/**
 * The one message of a call. Its size is known with its first bytes: it is checked, and reserved, before
 * the rest is read.
 */
function readMessage(
  { arrival, call, method, limits, clock }: CallOptions,
  reservation: ByteReservation,
  encoding: Encoding,
): Promise<ReceivedBody> {
  const { promise, resolve, reject } = Promise.withResolvers<ReceivedBody>();
  const { stream } = arrival;
  const frame = new Frame();
  let message: Buffer | undefined;

  // The library has a listener of its own: this one comes first, to stop a message that is too large.
  const onChunk = (chunk: Buffer): void => {
    try {
      if (!frame.take(chunk)) return;
      if (frame.length > method.maxBytes) throw tooLarge('message', method.maxBytes);
      const missing = frame.length * COPIES - reservation.held;
      if (missing > 0) reservation.grow(missing);
    } catch (error) {
      giveUp(error);
    }
  };
  const onMessage = (bytes: Buffer): void => {
    message = bytes;
  };
  const onEnd = (): void => {
    try {
      if (message === undefined) throw malformed('The call ended before its message did.');
      stop();
      resolve({ body: owned(message), encoding: frame.encoding(encoding) });
    } catch (error) {
      giveUp(error);
    }
  };
  const onGone = (): void => {
    giveUp(new ClientGone('the client left before its message was complete'));
  };
  const giveUp = (reason: unknown): void => {
    stop();
    reject(reason);
  };
  const stop = (): void => {
    cancelTimeout();
    stream.off('data', onChunk);
    call.off('data', onMessage);
    call.off('end', onEnd);
    call.off('cancelled', onGone);
  };
  const cancelTimeout = clock.after(limits.readTimeout, () =>
    giveUp(new Refusal('request_timeout', 'The message took too long to arrive.')),
  );
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

/** What stands around a message, as its bytes come in. */
class Frame {
  readonly #prefix = Buffer.alloc(PREFIX_BYTES);
  #received = 0;

  /** True when the prefix is complete with this chunk. Throws where a second message follows. */
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

  get length(): number {
    return this.#prefix.readUInt32BE(1);
  }

  /** How the message is compressed, where the call names `encoding`. */
  encoding(encoding: Encoding): Encoding {
    const flag = this.#prefix[0];
    if (flag === 0) return 'identity';
    if (flag === 1 && encoding !== 'identity') return encoding;
    throw malformed('The message says that it is compressed, and the call does not say how.');
  }
}

function malformed(message: string): Refusal {
  return new Refusal('invalid_request', message);
}

/** A small message stands in memory that is shared with others, and must not travel with it. */
function owned(message: Buffer): Buffer {
  if (message.buffer.byteLength === message.length + PREFIX_BYTES) return message;
  const copy = Buffer.allocUnsafeSlow(message.length);
  message.copy(copy);
  return copy;
}
