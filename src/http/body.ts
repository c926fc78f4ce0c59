import type { IncomingMessage } from 'node:http';
import { Refusal } from '../model/errors.ts';
import { MAX_BODY_BYTES } from '../model/formats.ts';
import type { ByteReservation } from './admission.ts';
import type { Exchange } from './exchange.ts';

/** The client disconnected before its body was complete, so it gets no answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** Bytes reserved for a body of unknown length before its first byte. */
export const CHUNKED_RESERVE = 65_536;

/** Bytes reserved for each byte of a body: the body, and the queue's copy of it. */
export const COPIES = 2;

/** Throws a `Refusal` (413) if the declared size is above the limit, before the body is read. */
export function checkDeclaredSize(declaredBytes: number | undefined): void {
  if (declaredBytes !== undefined && declaredBytes > MAX_BODY_BYTES)
    throw tooLarge('body', MAX_BODY_BYTES);
}

/**
 * The only reader of request bodies. Resolves with the transferred bytes in a Buffer that owns its ArrayBuffer,
 * so that a thread can take it over. Rejects with a `Refusal` one byte past the limit (413) or if the bytes in
 * flight leave no room (503), and with `ClientGone`.
 */
export function readBody(exchange: Exchange, reservation: ByteReservation): Promise<Buffer> {
  if (exchange.head.declaredBytes === 0) return Promise.resolve(Buffer.alloc(0));
  if (exchange.expectsContinue) exchange.response.writeContinue();
  return collect(exchange.request, exchange.head.declaredBytes, reservation);
}

function collect(
  request: IncomingMessage,
  declaredBytes: number | undefined,
  reservation: ByteReservation,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let buffer: Buffer = Buffer.allocUnsafeSlow(declaredBytes ?? CHUNKED_RESERVE);
  let length = 0;
  let isOver = false;

  const onData = (chunk: Buffer): void => {
    try {
      const end = length + chunk.length;
      if (end > MAX_BODY_BYTES) throw tooLarge('body', MAX_BODY_BYTES);
      if (end > buffer.length) buffer = enlarge(buffer, end, reservation);
      chunk.copy(buffer, length);
      length = end;
    } catch (error) {
      request.pause();
      giveUp(error);
    }
  };
  const onEnd = (): void => {
    stop();
    // Unused capacity would be held, and cloned, for the life of the batch.
    resolve(length === buffer.length ? buffer : moved(buffer, length));
  };
  const onGone = (): void => {
    giveUp(new ClientGone('the client left before its body was complete'));
  };
  const giveUp = (reason: unknown): void => {
    // A connection may break after the body is complete: that concerns only the answer.
    if (isOver) return;
    stop();
    moved(buffer, 0);
    reject(reason);
  };
  const stop = (): void => {
    isOver = true;
    request.off('data', onData);
    request.off('end', onEnd);
    request.off('close', onGone);
  };
  // An aborted request emits both; an `error` without a listener would end the process.
  request.on('error', onGone);
  request.on('close', onGone);
  request.on('end', onEnd);
  request.on('data', onData);
  return promise;
}

/** Doubles the capacity, so that a body of n bytes is copied less than twice in total. */
function enlarge(buffer: Buffer, needed: number, reservation: ByteReservation): Buffer {
  const capacity = Math.min(MAX_BODY_BYTES, Math.max(needed, buffer.length * 2));
  reservation.grow((capacity - buffer.length) * COPIES);
  return moved(buffer, capacity);
}

/**
 * The same bytes with another capacity. The former memory is free at once: left to the garbage collector, the
 * outgrown buffers of many bodies would be several times the reserved bytes.
 */
function moved(buffer: Buffer, capacity: number): Buffer {
  return Buffer.from((buffer.buffer as ArrayBuffer).transfer(capacity));
}

const MIB = 1_048_576;

/** The refusal of a transferred or inflated body above `maxBytes`, which are whole MiB. */
export function tooLarge(what: string, maxBytes: number, cause?: unknown): Refusal {
  const message = `The ${what} exceeds ${maxBytes / MIB} MiB (${maxBytes} bytes).`;
  return new Refusal('body_too_large', message, cause === undefined ? {} : { cause });
}
