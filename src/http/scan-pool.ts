import { fairTurns } from '../component/fair-turns.ts';
import type { SealedBatch } from '../model/batch.ts';
import { Refusal, RetryableError } from '../model/errors.ts';
import { SMALL_BODY_BYTES } from '../model/formats.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import type { Payload, PayloadField } from '../model/observation.ts';
import { TooManyFields } from '../model/otlp/merge-repeated.ts';
import type { OtlpEncoding } from '../model/otlp/request-part.ts';
import type { Thread } from '../thread/thread.ts';
import { asBuffer, createThread, threadFile } from '../thread/thread.ts';
import type { Preparation, Prepared } from './prepare.ts';
import { prepare } from './prepare.ts';
import type { CutRequest, ScanReply, ScanRequest, SpansRequest } from './scan-messages.ts';
import { preparedOf } from './scan-messages.ts';

/**
 * Inflates and scans bodies and cuts items out of them: small ones on the event loop, in a few milliseconds, large
 * ones in threads, so that no request delays the others. Reading has a thread of its own. Large bodies of several projects
 * are scanned in rotation.
 */
export type Scanner = {
  /**
   * Takes `body` over: the memory of a large one moves to the thread and returns with the result. Throws or
   * rejects with a `Refusal` if the body is invalid.
   */
  prepare(body: Buffer, wanted: Preparation, projectId: string): Prepared | Promise<Prepared>;
  /** Payload fields of an item of a large batch, as JSON text. Undefined if the batch is gone. */
  payload(
    batch: LargeBatch,
    position: number,
    fields: readonly PayloadField[],
  ): Promise<Payload | undefined>;
  /** An item of a large batch as it was accepted, as JSON text. Undefined if the batch is gone. */
  source(batch: LargeBatch, position: number): Promise<string | undefined>;
  /** Spans of a large batch; see `requestPart`. Undefined if the batch is gone, or has no spans. */
  spans(
    batch: LargeBatch,
    positions: readonly number[],
    encoding: OtlpEncoding,
  ): Promise<Buffer | undefined>;
  close(): Promise<void>;
};

/** A stored batch for the reading thread, which keeps those that were used last. */
type LargeBatch = {
  /** Names the batch and the version of its body. */
  readonly key: string;
  /** Called if the thread does not have it. Undefined if the batch is gone. */
  load(): Promise<SealedBatch | undefined>;
};

type CutWanted = Pick<CutRequest, 'type' | 'position' | 'fields'>;
type SpansWanted = Pick<SpansRequest, 'type' | 'positions' | 'encoding'>;

/** Log records are decoded, not only scanned: 512 KiB of attributes with names of their own take a quarter of a second. */
const SMALL_LOGS_BYTES = SMALL_BODY_BYTES / 8;

/** To merge as many fields takes two milliseconds. Encoders repeat no messages, so that usual requests have none to merge. */
const SMALL_MERGED_FIELDS = 16_384;

/** `readCacheBytes`: inflated bytes of batches that the reading thread keeps. */
export function createScanner(readCacheBytes = 0): Scanner {
  const file = threadFile(import.meta.url, 'scan-worker');
  const writing = createThread<ScanRequest, ScanReply>(file);
  const reading = createThread<ScanRequest, ScanReply>(file);
  const turns = fairTurns(1);
  const closing = new AbortController();

  async function inThread(body: Buffer, wanted: Preparation, projectId: string): Promise<Prepared> {
    const reply = await turns.take(projectId, closing.signal, () =>
      ask(writing, { type: 'prepare', body, wanted }, ownedMemory(body)),
    );
    return preparedOf(reply);
  }

  /** Sends the batch only if the thread does not have it. Undefined if the batch is gone. */
  async function askAbout(
    { key, load }: LargeBatch,
    wanted: CutWanted | SpansWanted,
  ): Promise<ScanReply | undefined> {
    const request = { ...wanted, key, cacheBytes: readCacheBytes };
    const reply = await ask(reading, request);
    if (reply.type !== 'unknown') return reply;
    const source = await load();
    return source && ask(reading, { ...request, source });
  }

  return {
    prepare(body, wanted, projectId) {
      const smallBytes = wanted.logs === true ? SMALL_LOGS_BYTES : SMALL_BODY_BYTES;
      if (inflatedSizeHint(body, wanted.encoding) > smallBytes) {
        return inThread(body, wanted, projectId);
      }
      const isInflated = wanted.encoding === 'identity';
      const maxBytes = isInflated ? undefined : smallBytes;
      try {
        return prepare(body, wanted, { maxBytes, maxMergedFields: SMALL_MERGED_FIELDS });
      } catch (error) {
        if (isForThread(error, isInflated)) return inThread(body, wanted, projectId);
        throw error;
      }
    },
    async payload(batch, position, fields) {
      const reply = await askAbout(batch, { type: 'cut', position, fields });
      if (reply === undefined) return undefined;
      if (reply.type === 'payload') return reply.payload;
      throw new Error(`expected a payload, got ${reply.type}`);
    },
    async source(batch, position) {
      const reply = await askAbout(batch, { type: 'cut', position, fields: 'source' });
      if (reply === undefined) return undefined;
      if (reply.type === 'source') return reply.text;
      throw new Error(`expected a source, got ${reply.type}`);
    },
    async spans(batch, positions, encoding) {
      const reply = await askAbout(batch, { type: 'spans', positions, encoding });
      if (reply === undefined) return undefined;
      if (reply.type === 'spans') return reply.part === null ? undefined : asBuffer(reply.part);
      throw new Error(`expected spans, got ${reply.type}`);
    },
    async close() {
      closing.abort(scanFailed());
      await Promise.all([writing.close(), reading.close()]);
    },
  };
}

/** Whether a body that looked small takes longer than the event loop may wait. */
function isForThread(error: unknown, isInflated: boolean): boolean {
  if (error instanceof TooManyFields) return true;
  // The declared size is too small: several gzip members, no size at all, or a false one.
  return !isInflated && error instanceof Refusal && error.code === 'body_too_large';
}

async function ask(
  thread: Thread<ScanRequest, ScanReply>,
  request: ScanRequest,
  transfer: readonly ArrayBuffer[] = [],
): Promise<ScanReply> {
  try {
    return await thread.ask(request, transfer);
  } catch (cause) {
    throw scanFailed(cause);
  }
}

function scanFailed(cause?: unknown): RetryableError {
  const message = 'The body could not be read safely. Try again.';
  return new RetryableError('scan_failed', message, { cause });
}

/** The memory to transfer. A Buffer of Node's shared pool, or of much larger memory, is copied instead. */
function ownedMemory(body: Buffer): ArrayBuffer[] {
  const memory = body.buffer;
  return memory instanceof ArrayBuffer && body.length * 2 > memory.byteLength ? [memory] : [];
}
