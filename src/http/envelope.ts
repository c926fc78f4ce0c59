import type { RequestHead } from '../component/component.ts';
import type { SealedBatch } from '../model/batch.ts';
import { rawEventId } from '../model/batch.ts';
import type { BatchIndex, JsonIndex } from '../model/batch-index.ts';
import type { Refusal } from '../model/errors.ts';
import { itemId } from '../model/formats.ts';
import { BACKSLASH, QUOTE } from '../model/json/grammar.ts';
import { idSlot } from '../model/json/item.ts';
import { endOf, isJsonIndex, startOf } from '../model/json/read.ts';
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
  const isPlain = batch.rejections.length === 0 && isJsonIndex(index);
  return (isPlain ? plainResults(batch, index) : undefined) ?? anyResults(batch, index);
}

/**
 * Hot path: the results as bytes, because the text of an id costs more than the result around it. An id without escapes is spelled in the
 * answer as in the request. Undefined if an id has another form, or if the results are too long.
 */
function plainResults(batch: SealedBatch, index: JsonIndex): string | undefined {
  const { bytes } = index;
  const rawId = wordsOf(`,"status":"queued","raw_event_id":"${rawEventId(batch.id, 0)}`);
  const out = PLAIN;
  let at = 0;
  for (let item = 0; item < batch.requestItems; item++) {
    const slot = idSlot(index, item);
    const start = startOf(index, item, slot);
    const end = endOf(index, item, slot);
    const length = end - start;
    if (bytes[start] !== QUOTE || length <= 2 || length > PLAIN_ID) return undefined;
    if (at + RESULT_BYTES + length > out.length) return undefined;
    at = put(at, item === 0 ? FIRST_RESULT : NEXT_RESULT);
    at = putNumber(out, at, item);
    at = put(at, ID_KEY);
    for (let i = start; i < end; i++) {
      const byte = bytes[i] as number;
      if (byte === BACKSLASH) return undefined;
      out[at++] = byte;
    }
    // The number of the first event is the last character.
    at = put(at, rawId) - 1;
    at = put(putNumber(out, at, item), RESULT_END);
  }
  return out.toString('utf8', 0, at);
}

/** Memory for all answers, each of which is made at once. Others are made as text. */
const PLAIN = Buffer.alloc(262_144);
/** The longest id in quotes. */
const PLAIN_ID = 258;
/** More than a result has without its id. */
const RESULT_BYTES = 160;
/** The same memory, for writing four bytes at a time. */
const PLAIN_WORDS = new DataView(PLAIN.buffer, PLAIN.byteOffset, PLAIN.byteLength);

/** ASCII as words of four bytes, the last of them filled up with zeros. */
type Words = { readonly words: Int32Array; readonly length: number };

function wordsOf(text: string): Words {
  const bytes = Buffer.alloc(Math.ceil(text.length / 4) * 4);
  bytes.write(text, 'latin1');
  const words = new Int32Array(bytes.length / 4);
  for (let i = 0; i < words.length; i++) words[i] = bytes.readInt32LE(4 * i);
  return { words, length: text.length };
}

const FIRST_RESULT = wordsOf('{"index":');
const NEXT_RESULT = wordsOf(',{"index":');
const ID_KEY = wordsOf(',"id":');
const RESULT_END = wordsOf('"}');

/** Writes up to three zeros behind the text too, which the next text overwrites. */
function put(start: number, { words, length }: Words): number {
  for (let i = 0; i < words.length; i++) {
    PLAIN_WORDS.setInt32(start + 4 * i, words[i] as number, true);
  }
  return start + length;
}

/** Decimal digits; a request has few items. */
function putNumber(out: Buffer, start: number, number: number): number {
  let end = start + 1;
  for (let rest = number; rest >= 10; rest = Math.floor(rest / 10)) end++;
  let rest = number;
  for (let at = end - 1; at >= start; at--) {
    out[at] = 0x30 + (rest % 10);
    rest = Math.floor(rest / 10);
  }
  return end;
}

function anyResults(batch: SealedBatch, index: BatchIndex): string {
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
