import type { SealedBatch } from '../../src/model/batch.ts';
import type { OtlpIndex } from '../../src/model/batch-index.ts';
import { RetryableError } from '../../src/model/errors.ts';
import {
  bytesOf,
  indexOf,
  knownIndexOf,
  SMALL_BODY_BYTES,
  smallIndexOf,
} from '../../src/model/formats.ts';
import { inflatedSizeHint, inflateSync } from '../../src/model/inflate.ts';
import { decodeSpansAt, encodeOtlp } from '../../src/model/otlp/encode.ts';
import { OBSERVATION_ORIGIN } from '../../src/model/otlp/encode-observation.ts';
import { encodeOwnSpans, type OwnSpan } from '../../src/model/otlp/own-span.ts';
import { asBuffer, createThread, threadFile } from '../../src/thread/thread.ts';
import { type BatchEvents, eventsOf, type ObservationEvent } from './observation-event.ts';

/** A request body to make from the body of a batch. */
export type BodyCut = {
  readonly batch: SealedBatch;
  /** Positions in the body; undefined for all of it. */
  readonly keep: readonly number[] | undefined;
  /** The encoding to convert OTLP to; undefined keeps the encoding in which it arrived. */
  readonly encoding: 'proto' | 'json' | undefined;
};

export type SpanEncoding = {
  readonly spans: readonly OwnSpan[];
  readonly encoding: 'proto' | 'json';
};

/** A request to the thread. Batches cross without their index: building it again is faster than copying it. */
export type BodyTask =
  | { readonly kind: 'read'; readonly batch: SealedBatch }
  | { readonly kind: 'cut'; readonly cut: BodyCut }
  | { readonly kind: 'encode'; readonly encoding: SpanEncoding };

export type BodyResult =
  | {
      readonly kind: 'events';
      readonly events: readonly Omit<ObservationEvent, 'batch'>[];
      readonly unreadable: BatchEvents['unreadable'];
    }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array };

/**
 * Reads and makes bodies: small ones at once, large ones in a thread, because they would delay the event
 * loop. Every method rejects with `RetryableError` if the thread is lost.
 */
export class BodyWorker {
  readonly #thread = createThread<BodyTask, BodyResult>(
    threadFile(import.meta.url, 'body-worker-thread'),
  );

  read(batch: SealedBatch): BatchEvents | Promise<BatchEvents> {
    return smallIndexOf(batch, SMALL_BODY_BYTES) === undefined
      ? this.#readLarge(batch)
      : eventsOf(batch);
  }

  /** The result is not compressed. */
  async cut(cut: BodyCut): Promise<Buffer> {
    if (!isLarge(cut.batch)) return cutBody(cut);
    return this.#bytes({ kind: 'cut', cut });
  }

  /** The result is not compressed. */
  async encode(encoding: SpanEncoding): Promise<Buffer> {
    if (textLength(encoding.spans) <= SMALL_BODY_BYTES) return encodeSpans(encoding);
    return this.#bytes({ kind: 'encode', encoding });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  async #readLarge(batch: SealedBatch): Promise<BatchEvents> {
    const result = await this.#ask({ kind: 'read', batch });
    if (result.kind !== 'events') throw new Error('the thread answered another request');
    const events = result.events.map((event) => ({ ...event, batch }));
    return { events, unreadable: result.unreadable };
  }

  async #bytes(task: BodyTask): Promise<Buffer> {
    const result = await this.#ask(task);
    if (result.kind !== 'bytes') throw new Error('the thread answered another request');
    return asBuffer(result.bytes);
  }

  #ask(task: BodyTask): Promise<BodyResult> {
    return this.#thread.ask(task).catch((cause: unknown) => {
      throw new RetryableError('scan_failed', 'The thread for large batches was lost.', { cause });
    });
  }
}

export function cutBody({ batch, keep, encoding }: BodyCut): Buffer {
  if (encoding !== undefined) {
    const index = indexOf(batch) as OtlpIndex;
    return encodeOtlp(decodeSpansAt(index, keep ?? allPositions(index.count)), encoding);
  }
  if (keep !== undefined) return bytesOf(batch, keep);
  return inflateSync(batch.body, batch.encoding, Number.MAX_SAFE_INTEGER);
}

export function encodeSpans({ spans, encoding }: SpanEncoding): Promise<Buffer> {
  return encodeOwnSpans(OBSERVATION_ORIGIN, spans, encoding);
}

export function allPositions(count: number): number[] {
  return Array.from({ length: count }, (_, position) => position);
}

function isLarge(batch: SealedBatch): boolean {
  const known = knownIndexOf(batch)?.bytes.length;
  return (known ?? inflatedSizeHint(batch.body, batch.encoding)) > SMALL_BODY_BYTES;
}

function textLength(spans: readonly OwnSpan[]): number {
  let length = 0;
  for (const { attributes } of spans) {
    for (const value of Object.values(attributes)) {
      if (typeof value === 'string') length += value.length;
    }
  }
  return length;
}
