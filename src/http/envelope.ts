import type { RequestHead } from '../component/component.ts';
import type { SealedBatch } from '../model/batch.ts';
import { rawEventId } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import type { Refusal } from '../model/errors.ts';
import { itemId } from '../model/formats.ts';
import type { Answer } from './exchange.ts';
import { refusalHeaders } from './exchange.ts';

/**
 * The native envelope (spec 2.5), the answer of the native and run endpoints:
 * `{"status","accepted","rejected","results"}`, with `code` and `message` on an error. Hot path, up to 1,000
 * items a request: the text is concatenated.
 */
const JSON_TYPE = 'application/json';

/** 202 with a result for each item; 400 `no_event_accepted` if every item was rejected. Dropped items are accepted. */
export function renderEnvelope(batch: SealedBatch, index: BatchIndex): Answer {
  const rejected = batch.rejections.length;
  const accepted = batch.requestItems - rejected;
  const counts = `"accepted":${accepted},"rejected":${rejected},"results":[${results(batch, index)}]`;
  if (accepted > 0) {
    return { status: 202, contentType: JSON_TYPE, body: `{"status":"queued",${counts}}` };
  }
  const problem = '"code":"no_event_accepted","message":"No event was accepted; results says why."';
  return {
    status: 400,
    contentType: JSON_TYPE,
    body: `{"status":"rejected",${counts},${problem}}`,
  };
}

/** The answer to a request that was refused as a whole: no item has a result. */
export function renderEnvelopeRefusal(refusal: Refusal, _head?: RequestHead): Answer {
  const reset =
    refusal.hourlyIngestResetAt === undefined
      ? ''
      : `,"hourly_ingest_reset_at":${JSON.stringify(refusal.hourlyIngestResetAt)}`;
  const position = refusal.position === undefined ? '' : `,"position":${refusal.position}`;
  return {
    status: refusal.status,
    contentType: JSON_TYPE,
    headers: refusalHeaders(refusal),
    body:
      '{"status":"rejected","accepted":0,"rejected":0,"results":[],' +
      `"code":"${refusal.code}","message":${JSON.stringify(refusal.message)}${position}${reset}}`,
  };
}

/** `index` describes the request before the seal, so item i of the request is item i of the index. */
function results(batch: SealedBatch, index: BatchIndex): string {
  let text = '';
  let next = 0;
  for (let i = 0; i < batch.requestItems; i++) {
    if (i > 0) text += ',';
    text += `{"index":${i}`;
    const id = itemId(index, i);
    if (id !== undefined) text += `,"id":${JSON.stringify(id)}`;
    const rejection = batch.rejections[next];
    if (rejection?.index === i) {
      next++;
      text += `,"status":"rejected","code":"${rejection.code}","reason":${JSON.stringify(rejection.reason)}}`;
    } else {
      text += `,"status":"queued","raw_event_id":"${rawEventId(batch.id, i)}"}`;
    }
  }
  return text;
}
