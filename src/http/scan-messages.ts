import type { SealedBatch } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import type { RefusalCode } from '../model/errors.ts';
import { Refusal } from '../model/errors.ts';
import type { Payload, PayloadField } from '../model/observation.ts';
import type { OtlpEncoding } from '../model/otlp/request-part.ts';
import { asBuffer } from '../thread/thread.ts';
import type { Preparation, Prepared } from './prepare.ts';

/** The messages between the scan pool and its threads. Buffers arrive as plain byte arrays. */
export type ScanRequest = PrepareRequest | CutRequest | SpansRequest;

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

/** Asks for spans of a stored batch; see `requestPart`. */
export type SpansRequest = Pick<CutRequest, 'key' | 'cacheBytes' | 'source'> & {
  readonly type: 'spans';
  readonly positions: readonly number[];
  readonly encoding: OtlpEncoding;
};

export type ScanReply = PrepareReply | CutReply;

type PrepareReply =
  | (Omit<Prepared, 'body'> & { readonly type: 'prepared'; readonly body: Uint8Array })
  | {
      readonly type: 'refused';
      readonly refusal: { code: RefusalCode; status: number; message: string };
    };

export type CutReply =
  | { readonly type: 'unknown' }
  | { readonly type: 'payload'; readonly payload: Payload }
  | { readonly type: 'source'; readonly text: string }
  /** Null for native events and runs. */
  | { readonly type: 'spans'; readonly part: Uint8Array | null };

/** The memory of a prepared body, to be transferred instead of copied. */
export function memoryOf(prepared: {
  body: Uint8Array;
  index: BatchIndex;
  attachments?: Prepared['attachments'];
}): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>();
  const contents = prepared.attachments?.map(({ content }) => content) ?? [];
  for (const value of [prepared.body, ...Object.values(prepared.index), ...contents]) {
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
  const { type: _, ...prepared } = reply;
  const feedback = reply.feedback?.map((each) => ({ ...each, json: asBuffer(each.json) }));
  const index = { ...reply.index, bytes: asBuffer(reply.index.bytes) };
  const attachments = reply.attachments?.map((attachment) => ({
    ...attachment,
    content: asBuffer(attachment.content),
  }));
  return {
    ...prepared,
    body: asBuffer(reply.body),
    index,
    ...(attachments && { attachments }),
    ...(feedback && { feedback }),
  };
}
