import type { Encoding } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import type { RefusalCode } from '../model/errors.ts';
import { Refusal } from '../model/errors.ts';
import type { Preparation, Prepared } from './prepare.ts';

/** What the scan pool and its worker say to each other. Buffers arrive as plain byte arrays. */
export type ScanRequest = {
  readonly id: number;
  readonly body: Uint8Array;
  readonly wanted: Preparation;
};

export type ScanReply =
  | {
      readonly id: number;
      readonly body: Uint8Array;
      readonly encoding: Encoding;
      readonly index: BatchIndex;
    }
  | {
      readonly id: number;
      readonly refusal: { code: RefusalCode; status: number; message: string };
    }
  | { readonly id: number; readonly fault: string };

/** A byte array that crossed between threads, as the Buffer it was. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The memory behind a prepared body, to be handed over instead of copied. */
export function memoryOf(prepared: Prepared): ArrayBuffer[] {
  const found = new Set<ArrayBuffer>();
  for (const value of [prepared.body, ...Object.values(prepared.index)]) {
    if (ArrayBuffer.isView(value) && value.buffer instanceof ArrayBuffer) found.add(value.buffer);
  }
  return [...found];
}

/** What a reply holds; throws the `Refusal` it carries, or an Error for a fault of ours. */
export function preparedOf(reply: ScanReply): Prepared {
  if ('refusal' in reply) {
    const { code, message, status } = reply.refusal;
    throw new Refusal(code, message, { status });
  }
  if ('fault' in reply) throw new Error(`the scan failed: ${reply.fault}`);
  const index = { ...reply.index, bytes: asBuffer(reply.index.bytes) };
  return { body: asBuffer(reply.body), encoding: reply.encoding, index };
}
