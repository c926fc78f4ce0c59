import type { SealedBatch } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import { Refusal } from '../model/errors.ts';
import { payload, sourceEvent } from '../model/formats.ts';
import { judged } from '../model/otlp/rules.ts';
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
} from './scan-messages.ts';
import { memoryOf } from './scan-messages.ts';

/** A thread of src/http/scan-pool.ts. It handles one body at a time. */
answerRequests<ScanRequest, ScanReply>((request) =>
  request.type === 'prepare' ? prepareLarge(request) : { reply: cut(request) },
);

function prepareLarge({ body, wanted }: PrepareRequest): Reply<ScanReply> {
  try {
    const prepared = prepare(asBuffer(body), wanted);
    const index = wanted.judges === true ? withVerdicts(prepared.index) : prepared.index;
    const reply = { type: 'prepared', ...prepared, index } as const;
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
  return index.type === 'otlp_proto' || index.type === 'otlp_json' ? judged(index) : index;
}

/** The batch of the last request: a reader requests its items one after the other. */
let kept: SealedBatch | undefined;

function cut({ batchId, source, position, fields }: CutRequest): CutReply {
  if (source !== undefined) kept = { ...source, body: asBuffer(source.body) };
  if (kept?.id !== batchId) return { type: 'unknown' };
  if (fields === 'source') return { type: 'source', text: sourceEvent(kept, position) };
  return { type: 'payload', payload: payload(kept, position, fields) };
}
