import type { SentEncoding } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import { MAX_BODY_BYTES } from '../model/formats.ts';
import { bodyPace } from './body-pace.ts';
import type { ByteReservation } from './bytes-in-flight.ts';
import type { Exchange } from './exchange.ts';

/** The client disconnected before its body was complete, so it gets no answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/** Bytes of a body for which memory is reserved before its first byte. */
export const FIRST_BYTES = 16_384;
/** The most bytes of a body for which memory is reserved ahead of their arrival. */
const LARGEST_STEP = 1_048_576;

/** Bytes reserved for each byte of a body: the body, its inflated or scanned form, and the queue's copy. */
export const COPIES = 3;

/** A compressed body is taken for one that inflates to so many times its bytes, until it is inflated. */
const LIKELY_INFLATION = 20;

/** States the memory that a request with a body of this length will hold at its end. */
export function expectBody(
  reservation: ByteReservation,
  bodyBytes: number,
  encoding: SentEncoding,
): void {
  const inflated = Math.min(MAX_BODY_BYTES, bodyBytes * LIKELY_INFLATION);
  // One of the body's copies is the inflated one.
  const likely = encoding === 'identity' ? 0 : Math.max(0, inflated - bodyBytes);
  reservation.expect(bodyBytes * COPIES, likely);
}

/** Bytes of the largest body that the reservation can hold. */
export function largestBody({ most }: ByteReservation): number {
  return Math.min(MAX_BODY_BYTES, Math.floor(most / COPIES));
}

/** Throws a `Refusal` (413) if the declared size is above the limit, before the body is read. */
export function checkDeclaredSize(declaredBytes: number | undefined, maxBytes: number): void {
  if (declaredBytes !== undefined && declaredBytes > maxBytes) throw tooLarge('body', maxBytes);
}

/**
 * Reserves memory for the first bytes of a body before any of it is read. Undefined: reserved at once. Throws a `Refusal` (413) if the
 * declared size is above the limit; rejects with one (503) if no room becomes free.
 */
export function reserveFirst(
  reservation: ByteReservation,
  declaredBytes: number | undefined,
  encoding: SentEncoding,
): Promise<void> | undefined {
  checkDeclaredSize(declaredBytes, largestBody(reservation));
  if (declaredBytes !== undefined) expectBody(reservation, declaredBytes, encoding);
  return reservation.obtain(Math.min(declaredBytes ?? FIRST_BYTES, FIRST_BYTES) * COPIES);
}

/**
 * The only reader of request bodies. Resolves with the transferred bytes in a Buffer that owns its ArrayBuffer,
 * so that a thread can take it over. Reserves bytes as they arrive, and does not read while it waits for them. Rejects
 * with a `Refusal` one byte past the limit (413), if the bytes in flight leave no room (503) or if the body
 * arrives too slowly (408), and with `ClientGone`. The reservation has the first bytes.
 */
export function readBody(exchange: Exchange, reservation: ByteReservation): Promise<Buffer> {
  if (exchange.head.declaredBytes === 0) return Promise.resolve(Buffer.alloc(0));
  if (exchange.expectsContinue) exchange.response.writeContinue();
  return collect(exchange, reservation);
}

function collect(
  { request, head: { declaredBytes }, bodyRate, clock, yields }: Exchange,
  reservation: ByteReservation,
): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const maxBytes = largestBody(reservation);
  const body = new Pieces(Math.min(declaredBytes ?? maxBytes, maxBytes));
  let isOver = false;

  const onData = (chunk: Buffer): void => {
    try {
      pace.arrived(chunk.length);
      if (body.length + chunk.length > maxBytes) throw tooLarge('body', maxBytes);
      const more = body.capacityFor(chunk.length) * COPIES - reservation.held;
      const waiting = more > 0 ? reservation.obtain(more) : undefined;
      if (waiting === undefined) body.append(chunk);
      else waitWith(chunk, waiting);
    } catch (error) {
      giveUp(error);
    }
  };
  const waitWith = (chunk: Buffer, waiting: Promise<void>): void => {
    request.pause();
    pace.pause();
    waiting.then(() => {
      if (isOver) return;
      body.append(chunk);
      pace.resume();
      request.resume();
    }, giveUp);
  };
  const onEnd = (): void => {
    stop();
    resolve(body.joined());
  };
  const onGone = (): void => {
    giveUp(new ClientGone('the client left before its body was complete'));
  };
  const giveUp = (reason: unknown): void => {
    // A connection may break after the body is complete: that concerns only the answer.
    if (isOver) return;
    request.pause();
    stop();
    body.free();
    reject(reason);
  };
  const stop = (): void => {
    isOver = true;
    pace.stop();
    keepBytes();
    keepPlace?.();
    request.off('data', onData);
    request.off('end', onEnd);
    request.off('close', onGone);
  };
  const pace = bodyPace(bodyRate, clock, giveUp);
  const keepBytes = reservation.yields(giveUp);
  const keepPlace = yields?.(giveUp);
  // An aborted request emits both; an `error` without a listener would end the process.
  request.on('error', onGone);
  request.on('close', onGone);
  request.on('end', onEnd);
  request.on('data', onData);
  // It may have left while it waited for its first bytes.
  if (request.destroyed) onGone();
  return promise;
}

/**
 * A body as it arrives. Each piece owns its memory and grows with what has arrived, so that a body holds at most
 * twice its bytes, and a large one 1 MiB more than its bytes.
 */
class Pieces {
  readonly #maxBytes: number;
  readonly #pieces: Buffer[] = [];
  #capacity = 0;
  #length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#length;
  }

  /** The capacity with room for so many more bytes. */
  capacityFor(bytes: number): number {
    const needed = this.#length + bytes;
    if (needed <= this.#capacity) return this.#capacity;
    const arrived = this.#length === 0 ? 2 * bytes : this.#length;
    const step = Math.max(FIRST_BYTES, Math.min(arrived, LARGEST_STEP));
    return Math.max(needed, Math.min(this.#maxBytes, this.#capacity + step));
  }

  append(chunk: Buffer): void {
    // The whole body, in memory of its own, needs no copy.
    if (chunk.length === this.#maxBytes && chunk.length === chunk.buffer.byteLength) {
      this.#pieces.push(chunk);
      this.#capacity = chunk.length;
      this.#length = chunk.length;
      return;
    }
    const capacity = this.capacityFor(chunk.length);
    const last = this.#pieces.at(-1);
    const free = this.#capacity - this.#length;
    const copied = last === undefined ? 0 : chunk.copy(last, last.length - free, 0, free);
    if (capacity > this.#capacity) {
      const piece = Buffer.allocUnsafeSlow(capacity - this.#capacity);
      chunk.copy(piece, 0, copied);
      this.#pieces.push(piece);
      this.#capacity = capacity;
    }
    this.#length += chunk.length;
  }

  /** The body in a Buffer without unused capacity, which would be held, and cloned, for the life of the batch. */
  joined(): Buffer {
    const [first] = this.#pieces;
    if (first === undefined) return Buffer.alloc(0);
    if (this.#pieces.length === 1) {
      return this.#length === first.length ? first : moved(first, this.#length);
    }
    const whole = Buffer.allocUnsafeSlow(this.#length);
    let at = 0;
    for (const piece of this.#pieces) {
      at += piece.copy(whole, at);
      moved(piece, 0);
    }
    return whole;
  }

  /** Frees the memory at once: left to the garbage collector, it would be several times the reserved bytes. */
  free(): void {
    for (const piece of this.#pieces) moved(piece, 0);
    this.#pieces.length = 0;
  }
}

/** The same bytes with another capacity. The former memory is free at once. */
function moved(buffer: Buffer, capacity: number): Buffer {
  return Buffer.from((buffer.buffer as ArrayBuffer).transfer(capacity));
}

const KIB = 1024;
const MIB = 1_048_576;

/** The refusal of a transferred or inflated body above `maxBytes`. */
export function tooLarge(what: string, maxBytes: number, cause?: unknown): Refusal {
  const [unit, name] = maxBytes < MIB ? [KIB, 'KiB'] : [MIB, 'MiB'];
  const message = `The ${what} exceeds ${Math.floor((maxBytes / unit) * 10) / 10} ${name} (${maxBytes} bytes).`;
  return new Refusal('body_too_large', message, cause === undefined ? {} : { cause });
}
