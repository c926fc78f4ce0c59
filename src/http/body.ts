import type { IncomingMessage } from 'node:http';
import { MAX_BODY_BYTES } from '../model/formats.ts';
import type { ByteReservation } from './admission.ts';
import type { Exchange } from './exchange.ts';
import { tooLarge } from './too-large.ts';

/** The client went away before its body was complete; there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** What a body of unknown length reserves before its first byte. */
export const CHUNKED_RESERVE = 65_536;

/** What a request reserves for each byte of its body: the body, and the queue's copy of it. */
export const COPIES = 2;

/** Throws the 413 of a body that says itself that it is too large, before any of it is read. */
export function checkDeclaredSize(declaredBytes: number | undefined): void {
  if (declaredBytes !== undefined && declaredBytes > MAX_BODY_BYTES)
    throw tooLarge('body', MAX_BODY_BYTES);
}

/**
 * The one reader of request bodies. Resolves with the transferred bytes in a Buffer that owns its
 * ArrayBuffer, so that it can be handed to another thread. Counts while it reads: rejects with a `Refusal`
 * one byte past the limit (413) or where the bytes in flight leave no room (503), and with `ClientGone`.
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
    // Unused room would be held, and cloned, for the life of the batch.
    resolve(length === buffer.length ? buffer : moved(buffer, length));
  };
  const onGone = (): void => {
    giveUp(new ClientGone('the client left before its body was complete'));
  };
  const giveUp = (reason: unknown): void => {
    // A connection may still break when the body is complete, and then is not ours any more.
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
  // A request that breaks off emits both; an `error` without a listener would end the process.
  request.on('error', onGone);
  request.on('close', onGone);
  request.on('end', onEnd);
  request.on('data', onData);
  return promise;
}

/** Doubles the room, so that a body of n bytes is copied less than twice on the whole. */
function enlarge(buffer: Buffer, needed: number, reservation: ByteReservation): Buffer {
  const capacity = Math.min(MAX_BODY_BYTES, Math.max(needed, buffer.length * 2));
  reservation.grow((capacity - buffer.length) * COPIES);
  return moved(buffer, capacity);
}

/**
 * The same bytes in room for `capacity`. The room they leave is free at once: left to the collector, the
 * outgrown buffers of many bodies would be several times what is reserved for them.
 */
function moved(buffer: Buffer, capacity: number): Buffer {
  return Buffer.from((buffer.buffer as ArrayBuffer).transfer(capacity));
}
