import { LruCache } from '../component/lru.ts';
import type { SealedBatch } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import { Refusal } from '../model/errors.ts';
import {
  indexBytes,
  indexOf,
  keepIndex,
  payload,
  requestSpans,
  sourceEvent,
} from '../model/formats.ts';
import { judged } from '../model/otlp/rules.ts';
import { ownCopyOf } from '../model/own-memory.ts';
import { withAttachmentBytes } from '../model/runs/attached.ts';
import { collectGarbage } from '../thread/idle-memory.ts';
import type { Reply } from '../thread/thread.ts';
import { answerRequests, asBuffer } from '../thread/thread.ts';
import { prepare } from './prepare.ts';
import type {
  CutReply,
  CutRequest,
  PrepareRequest,
  ScanReply,
  ScanRequest,
  SpansRequest,
} from './scan-messages.ts';
import { memoryOf } from './scan-messages.ts';

const NO_BYTES = Buffer.alloc(0);

/** A thread of src/http/scan-pool.ts. It handles one body at a time. */
answerRequests<ScanRequest, ScanReply>((request) => {
  switch (request.type) {
    case 'prepare':
      return prepareLarge(request);
    case 'cut':
      return { reply: cut(request) };
    case 'spans':
      return { reply: spans(request) };
  }
});

function prepareLarge({ body, wanted }: PrepareRequest): Reply<ScanReply> {
  try {
    const prepared = prepare(asBuffer(body), wanted);
    const index = wanted.judges === true ? withVerdicts(prepared.index) : prepared.index;
    const attachments = prepared.attachments?.map((each) => ({
      ...each,
      // A part of the body: the whole body would move with it.
      content: ownCopyOf(each.content),
    }));
    const feedback = prepared.feedback?.map((each) => ({ ...each, json: ownCopyOf(each.json) }));
    const reply = {
      type: 'prepared',
      ...prepared,
      ...(attachments && { attachments }),
      ...(feedback && { feedback }),
      index,
    } as const;
    return { reply, transfer: memoryOf(reply) };
  } catch (error) {
    // The inflated bytes of refused bodies are outside of V8's heap, which is nearly empty: V8 would collect them
    // too late.
    setImmediate(collectGarbage);
    if (!(error instanceof Refusal)) throw error;
    const { code, status, message } = error;
    return { reply: { type: 'refused', refusal: { code, status, message } } };
  }
}

function withVerdicts(index: BatchIndex): BatchIndex {
  switch (index.type) {
    case 'otlp_proto':
    case 'otlp_json':
      return judged(index);
    case 'runs':
      return withAttachmentBytes(index);
    case 'native':
      return index;
  }
}

/** The batches that were used last, with their indexes. The last one stays, whatever its size. */
let kept: LruCache<string, SealedBatch> | undefined;

function keptBatch({
  key,
  cacheBytes,
  source,
}: CutRequest | SpansRequest): SealedBatch | undefined {
  kept ??= new LruCache({ maxEntries: Infinity, maxWeight: cacheBytes, weightOf: indexBytes });
  if (source !== undefined) kept.set(key, inflated(source));
  return kept.get(key);
}

function cut(request: CutRequest): CutReply {
  const batch = keptBatch(request);
  const { position, fields } = request;
  if (batch === undefined) return { type: 'unknown' };
  if (fields === 'source') return { type: 'source', text: sourceEvent(batch, position) };
  return { type: 'payload', payload: payload(batch, position, fields) };
}

function spans(request: SpansRequest): CutReply {
  const batch = keptBatch(request);
  if (batch === undefined) return { type: 'unknown' };
  return { type: 'spans', part: requestSpans(batch, request.positions, request.encoding) ?? null };
}

/** The batch with its index in place of its body. */
function inflated(source: SealedBatch): SealedBatch {
  const index = indexOf({ ...source, body: asBuffer(source.body) });
  const batch = { ...source, body: NO_BYTES };
  keepIndex(batch, index);
  return batch;
}
