import type { Encoding, SealedBatch } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import type { RefusalCode } from '../model/errors.ts';
import { Refusal } from '../model/errors.ts';
import type { Payload, PayloadField } from '../model/observation.ts';
import { asBuffer } from '../thread/thread.ts';
import type { Preparation, Prepared } from './prepare.ts';

/** The messages between the scan pool and its threads. Buffers arrive as plain byte arrays. */
export type ScanRequest = PrepareRequest | CutRequest;

export type PrepareRequest = {
  readonly type: 'prepare';
  readonly body: Uint8Array;
  readonly wanted: Preparation;
};

/** Asks for the text of one item of a stored batch; `source` is the batch, sent if the thread does not have it. */
export type CutRequest = {
  readonly type: 'cut';
  /** Names the batch and the version of its body. */
  readonly key: string;
  /** Inflated bytes of batches that the thread may keep. */
  readonly cacheBytes: number;
  readonly source?: SealedBatch;
  /** The position of the item in the body. */
  readonly position: number;
  readonly fields: readonly PayloadField[] | 'source';
};

export type ScanReply = PrepareReply | CutReply;

type PrepareReply =
  | {
      readonly type: 'prepared';
      readonly body: Uint8Array;
      readonly encoding: Encoding;
      readonly index: BatchIndex;
    }
  | {
      readonly type: 'refused';
      readonly refusal: { code: RefusalCode; status: number; message: string };
    };

export type CutReply =
  | { readonly type: 'unknown' }
  | { readonly type: 'payload'; readonly payload: Payload }
  | { readonly type: 'source'; readonly text: string };

/** The memory of a prepared body, to be transferred instead of copied. */
export function memoryOf(prepared: { body: Uint8Array; index: BatchIndex }): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>();
  for (const value of [prepared.body, ...Object.values(prepared.index)]) {
    if (ArrayBuffer.isView(value) && value.buffer instanceof ArrayBuffer) found.add(value.buffer);
  }
  return [...found];
}

/** The prepared body of a reply. Throws the reply's `Refusal`. */
export function preparedOf(reply: ScanReply): Prepared {
  if (reply.type === 'refused') {
    const { code, message, status } = reply.refusal;
    throw new Refusal(code, message, { status });
  }
  if (reply.type !== 'prepared') throw new Error(`expected a prepared body, got ${reply.type}`);
  const index = { ...reply.index, bytes: asBuffer(reply.index.bytes) };
  return { body: asBuffer(reply.body), encoding: reply.encoding, index };
}
