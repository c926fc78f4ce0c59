import type { SealedBatch } from '../../src/model/batch.ts';
import type { OtlpIndex } from '../../src/model/batch-index.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { bytesOf, indexOf, knownIndexOf, SMALL_BODY_BYTES } from '../../src/model/formats.ts';
import { inflatedSizeHint, inflateSync } from '../../src/model/inflate.ts';
import { decodeSpansAt, encodeOtlp } from '../../src/model/otlp/encode.ts';
import { asBuffer, createThread, threadFile } from '../../src/thread/thread.ts';

/** What is wanted of a batch's body. */
export type Cut = {
  readonly batch: SealedBatch;
  /** Positions in the body; undefined for all of it. */
  readonly keep: readonly number[] | undefined;
  /** Of OTLP, where it is to be another than it came in. */
  readonly encoding: 'proto' | 'json' | undefined;
};

/** Makes bodies out of bodies: small ones at once, large ones in a thread, as reader.ts does. */
export type Cutter = {
  /** Inflated. Rejects with `RetryableError` when the thread is lost. */
  cut(cut: Cut): Buffer | Promise<Buffer>;
  close(): Promise<void>;
};

export function createCutter(): Cutter {
  const thread = createThread<Cut, Uint8Array>(threadFile(import.meta.url, 'cutting-thread'));

  async function cutLarge(cut: Cut): Promise<Buffer> {
    const bytes = await thread.ask(cut).catch((cause: unknown) => {
      throw new RetryableError('scan_failed', 'The batch was not read.', { cause });
    });
    return asBuffer(bytes);
  }

  return {
    cut: (cut) => (isLarge(cut.batch) ? cutLarge(cut) : cutAtOnce(cut)),
    close: () => thread.close(),
  };
}

function isLarge(batch: SealedBatch): boolean {
  const known = knownIndexOf(batch)?.bytes.length;
  return (known ?? inflatedSizeHint(batch.body, batch.encoding)) > SMALL_BODY_BYTES;
}

export function cutAtOnce({ batch, keep, encoding }: Cut): Buffer {
  if (encoding !== undefined) {
    const index = indexOf(batch) as OtlpIndex;
    return encodeOtlp(decodeSpansAt(index, keep ?? allOf(index.count)), encoding);
  }
  if (keep !== undefined) return bytesOf(batch, keep);
  return inflateSync(batch.body, batch.encoding, Number.MAX_SAFE_INTEGER);
}

/** The positions from 0 on. */
export function allOf(count: number): number[] {
  return Array.from({ length: count }, (_, position) => position);
}
