import type { Batch, Format, ReceivedBatch, SealedBatch, Usage } from './batch.ts';
import { bodyOf, itemsOf } from './batch.ts';
import type { BatchIndex, JsonIndex, OtlpIndex } from './batch-index.ts';
import { DROPPED, REJECTED } from './changes.ts';
import type { FormatModule, ItemHead, ScanLimits } from './format-module.ts';
import { InflateError, inflatedSizeHint, inflateSync } from './inflate.ts';
import { isJsonIndex, itemRange } from './json/read.ts';
import { native } from './native/format.ts';
import type { Observation, ObservationSource, Payload, PayloadField } from './observation.ts';
import { PAYLOAD_FIELDS } from './observation.ts';
import { spanField } from './otlp/context.ts';
import { OtlpField } from './otlp/fields.ts';
import { otlpJson, otlpProto } from './otlp/format.ts';
import type { OtlpEncoding } from './otlp/request-part.ts';
import { requestPart } from './otlp/request-part.ts';
import { hasPreviews, withPreviews } from './preview.ts';
import { runs } from './runs/format.ts';
import type { NewParent, Splice, TextSteps, TextVisitor } from './texts.ts';
import { withWellFormedTexts } from './well-formed.ts';

/**
 * Inflated bytes of a body up to which the event loop works on it. No step over any body of this size takes more
 * than 0.1 s; threads work on larger ones.
 */
export const SMALL_BODY_BYTES = 524_288;

/** The limit of transferred and of inflated bodies (spec 8). */
export const MAX_BODY_BYTES = 26_214_400;

/** For bodies that were within the configured limits when they were accepted. */
export const STORED_LIMITS = { maxItems: Number.MAX_SAFE_INTEGER, maxDepth: 1024 } as const;

/** One pass over an inflated body; see `FormatModule.scan`. */
export function scan(format: Format, bytes: Buffer, limits: ScanLimits): BatchIndex {
  switch (format) {
    case 'native':
      return native.scan(bytes, limits);
    case 'runs':
      return runs.scan(bytes, limits);
    case 'otlp_proto':
      return otlpProto.scan(bytes, limits);
    case 'otlp_json':
      return otlpJson.scan(bytes, limits);
  }
}

/** The indexes of sealed batches, which are plain data and cross to threads without them. */
const indexes = new WeakMap<SealedBatch, BatchIndex>();

/** The index of a sealed batch that is known without work. */
export function knownIndexOf(batch: SealedBatch): BatchIndex | undefined {
  return indexes.get(batch);
}

/** Saves the batch's readers a scan. */
export function keepIndex(batch: SealedBatch, index: BatchIndex): void {
  indexes.set(batch, index);
}

/** Batches whose index is read after their request. */
const held = new WeakSet<SealedBatch>();

/** Keeps the batch's index for readers after its request; see `freeInflated`. */
export function holdIndex(batch: SealedBatch): void {
  if (indexes.has(batch)) held.add(batch);
}

/**
 * Frees the inflated form of a batch whose request is answered, unless a queue holds its index. Left to the garbage collector, the form
 * survives into the old generation, whose limit counts its bytes: the collector then marks the whole heap several times a second. A later
 * reader inflates the body again.
 */
export function freeInflated(batch: SealedBatch): void {
  const bytes = indexes.get(batch)?.bytes;
  if (bytes === undefined || held.has(batch) || bytes.buffer === batch.body.buffer) return;
  if (freeMemory(bytes)) indexes.delete(batch);
}

/** Batches whose request reads them no more, and those that several components may read. */
const answered = new WeakSet<SealedBatch>();
const shared = new WeakSet<SealedBatch>();

/** The batch has no request, or its request reads it no more; see `freeBatch`. */
export function endRequest(batch: SealedBatch): void {
  answered.add(batch);
}

/** Several components get the batch, or one that may keep it; see `freeBatch`. */
export function shareBatch(batch: SealedBatch): void {
  shared.add(batch);
}

/** The batches behind copies without an index, which have the same bytes. */
const originals = new WeakMap<SealedBatch, SealedBatch>();

/** The batch for a component that needs no index, so that the inflated form does not wait with the batch. */
export function withoutIndex(batch: SealedBatch): SealedBatch {
  const copy = { ...batch };
  originals.set(copy, originals.get(batch) ?? batch);
  return copy;
}

/**
 * Frees the bytes of a delivered batch, unless its request or another component may read them. Bodies wait for their delivery, and so
 * survive into the old generation: V8 would keep up to 64 MiB of them, and then mark the whole heap.
 */
export function freeBatch(batch: SealedBatch): void {
  const original = originals.get(batch) ?? batch;
  if (!answered.has(original) || shared.has(original) || shared.has(batch)) return;
  const bytes = indexes.get(batch)?.bytes;
  indexes.delete(batch);
  if (bytes !== undefined && bytes.buffer !== batch.body.buffer) freeMemory(bytes);
  if (batch.body.byteLength === batch.body.buffer.byteLength) freeMemory(batch.body);
}

/** Returns false if the bytes are a part of a larger memory. */
function freeMemory({ byteLength, buffer }: Buffer): boolean {
  // A part of Node's shared pool is at most half of it.
  if (byteLength * 2 <= buffer.byteLength || !(buffer instanceof ArrayBuffer)) return false;
  buffer.transfer(0);
  return true;
}

/** Bytes of a batch's index, if it has one. */
export function indexBytes(batch: SealedBatch): number {
  let bytes = 0;
  for (const part of Object.values(indexes.get(batch) ?? {})) {
    if (ArrayBuffer.isView(part)) bytes += part.byteLength;
  }
  return bytes;
}

/** The batch's index; inflates and scans a batch that came out of a queue or store, once. */
export function indexOf(batch: SealedBatch): BatchIndex {
  const known = indexes.get(batch);
  if (known !== undefined) return known;
  const bytes = inflateSync(bodyOf(batch), batch.encoding, Number.MAX_SAFE_INTEGER);
  const index = scan(batch.format, bytes, STORED_LIMITS);
  indexes.set(batch, index);
  return index;
}

/**
 * The batch's index if it is known, or if the inflated body has at most `maxBytes`; undefined if making it is
 * work for a thread.
 */
export function smallIndexOf(batch: SealedBatch, maxBytes: number): BatchIndex | undefined {
  const known = indexes.get(batch);
  if (known !== undefined) return known.bytes.length > maxBytes ? undefined : known;
  const { encoding, format } = batch;
  const body = bodyOf(batch);
  if (inflatedSizeHint(body, encoding) > maxBytes) return undefined;
  try {
    const index = scan(format, inflateSync(body, encoding, maxBytes), STORED_LIMITS);
    indexes.set(batch, index);
    return index;
  } catch (error) {
    // The sender declared a size that is too small.
    if (error instanceof InflateError && error.reason === 'too_large') return undefined;
    throw error;
  }
}

/** The item's own id, for its result. Positions are those in the body. */
export function itemId(index: BatchIndex, position: number): string | undefined {
  return moduleOf(index).itemId(index, position);
}

/** The usage of the items that are neither rejected nor dropped. */
export function measure({ index, changes }: ReceivedBatch): Usage {
  const format = moduleOf(index);
  const marks = changes?.marks;
  let bytes = 0;
  let beside = 0;
  let events = 0;
  for (let position = 0; position < index.count; position++) {
    if (marks !== undefined && ((marks[position] ?? 0) & (REJECTED | DROPPED)) !== 0) continue;
    bytes += format.usageBytes(index, position);
    beside += format.besideBytes?.(index, position) ?? 0;
    events++;
  }
  // A client can name any size. No request brings more than a body has.
  return { events, bytes: bytes + Math.min(beside, MAX_BODY_BYTES) };
}

/** The inflated body with only the items at these positions; everything around them is unchanged. */
export function bytesOf(batch: SealedBatch, keep: readonly number[]): Buffer {
  return cut(indexOf(batch), keep);
}

/** As `bytesOf`, for an index. */
export function cut(index: BatchIndex, keep: readonly number[]): Buffer {
  return moduleOf(index).cut(index, keep);
}

/** As `cut`, without the resources and scopes that only other items have. */
export function erase(index: BatchIndex, keep: readonly number[]): Buffer {
  return moduleOf(index).erase(index, keep);
}

/** The inflated body with these splices applied, which are in order and do not overlap. */
export function spliced(index: BatchIndex, splices: readonly Splice[]): Buffer {
  return moduleOf(index).splice(index, splices);
}

/** Request position of the item at `position` of the body. */
export function requestIndexOf(batch: SealedBatch, position: number): number {
  return batch.positions?.[position] ?? position;
}

/** The position in the body of a request's item; undefined if the item was rejected or dropped. */
export function positionOf(batch: SealedBatch, requestIndex: number): number | undefined {
  if (batch.positions === undefined)
    return requestIndex < batch.requestItems ? requestIndex : undefined;
  const found = batch.positions.indexOf(requestIndex);
  return found === -1 ? undefined : found;
}

/** The position in the body of an item that a row refers to; undefined if the item was erased. */
export function placeInBody({ gaps = [] }: SealedBatch, position: number): number | undefined {
  const before = gaps.findIndex((gap) => gap >= position);
  if (before === -1) return position - gaps.length;
  return gaps[before] === position ? undefined : position - before;
}

/** The positions by which rows refer to the items of the body. */
export function storedPositionsOf({ items, gaps = [] }: SealedBatch): number[] {
  const isGap = new Set(gaps);
  const stored: number[] = [];
  for (let position = 0; stored.length < items; position++) {
    if (!isGap.has(position)) stored.push(position);
  }
  return stored;
}

/** Every item of the body in the common form, without payload fields. Throws if one cannot be read. */
export function observe(batch: SealedBatch): Observation[] {
  const { observations, failures } = observeEach(batch);
  if (failures[0] !== undefined) throw failures[0].error;
  return observations;
}

/** An item that cannot be read, by its request position. */
export type UnreadableItem = { readonly index: number; readonly error: unknown };

/** As `observe`, with the items that cannot be read beside those that can. */
export function observeEach(batch: SealedBatch): {
  observations: Observation[];
  failures: UnreadableItem[];
} {
  const index = indexOf(batch);
  const format = moduleOf(index);
  const observations: Observation[] = [];
  const failures: UnreadableItem[] = [];
  for (let position = 0; position < index.count; position++) {
    const requestIndex = requestIndexOf(batch, position);
    try {
      const observation = format.observe(index, position, requestIndex);
      const isPreviewed = hasPreviews(observation);
      const whole = isPreviewed ? previewed(observation, index, position) : observation;
      observations.push(withWellFormedTexts(whole));
    } catch (error) {
      failures.push({ index: requestIndex, error });
    }
  }
  return { observations, failures };
}

/** Apart from the loop, so that only observations with previews allocate a closure. */
function previewed(observation: Observation, index: BatchIndex, position: number): Observation {
  const format = moduleOf(index);
  return withPreviews(observation, format.beginnings?.(index, position) ?? {}, (fields) =>
    format.payload(index, position, fields),
  );
}

/** One item of a request in the common form. Throws if it cannot be read. */
export function observeItem(index: BatchIndex, item: number): Observation {
  return withWellFormedTexts(moduleOf(index).observe(index, item, item));
}

/** Payload fields of one item as JSON text. */
export function payload(
  batch: SealedBatch,
  position: number,
  fields: readonly PayloadField[] = PAYLOAD_FIELDS,
): Payload {
  const index = indexOf(batch);
  return moduleOf(index).payload(index, position, fields);
}

/** Spans of a batch as a part of a request; see `requestPart`. Undefined for native events and runs. */
export function requestSpans(
  batch: SealedBatch,
  positions: readonly number[],
  encoding: OtlpEncoding,
): Buffer | undefined {
  const index = indexOf(batch);
  return isJsonIndex(index) ? undefined : requestPart(index, positions, encoding);
}

/** One item as JSON text, as it was accepted. */
export function sourceEvent(batch: SealedBatch, position: number): string {
  const index = indexOf(batch);
  return moduleOf(index).source(index, position);
}

/** Visits the texts of one item. */
export function visitTexts(index: BatchIndex, position: number, visitor: TextVisitor): void {
  runToEnd(visitTextsInTurns(index, position, visitor));
}

/** The same for an item of any size, in steps for `inTurns`. */
export function visitTextsInTurns(
  index: BatchIndex,
  position: number,
  visitor: TextVisitor,
): TextSteps {
  return moduleOf(index).texts(index, position, visitor);
}

/** Visits the texts that no single item owns: of resources, scopes, and members around the items. */
export function visitSharedTexts(index: BatchIndex, visitor: TextVisitor): void {
  runToEnd(visitSharedTextsInTurns(index, visitor));
}

/** The same in steps for `inTurns`. */
export function visitSharedTextsInTurns(index: BatchIndex, visitor: TextVisitor): TextSteps {
  return moduleOf(index).sharedTexts(index, visitor);
}

function runToEnd(steps: TextSteps): void {
  while (steps.next().done !== true);
}

/** The bytes of one item: a JSON object, or the content of a span's message. */
export function itemRangeOf(
  index: BatchIndex,
  position: number,
): { readonly start: number; readonly end: number } {
  if (isJsonIndex(index)) {
    const [start, end] = itemRange(index, position);
    return { start, end };
  }
  return {
    start: spanField(index, position, OtlpField.START),
    end: spanField(index, position, OtlpField.END),
  };
}

/** Narrow facts of an item, each decoded when it is read. */
export function headOf(index: BatchIndex, position: number): ItemHead {
  return moduleOf(index).head(index, position);
}

/** A text as it is spelled in a body of this format. */
export function encodeText(index: BatchIndex, text: string): Buffer {
  return moduleOf(index).encodeText(text);
}

/** Splices that attach an item to another parent; see `FormatModule.reparent`. */
export function reparent(index: BatchIndex, position: number, parent: NewParent): Splice[] {
  return moduleOf(index).reparent(index, position, parent);
}

/** The protocol of a format, as readers see it. */
export function sourceOf(format: Format): ObservationSource {
  return format === 'native' || format === 'runs' ? format : 'otlp';
}

type Module = FormatModule<JsonIndex> | FormatModule<OtlpIndex>;
const MODULES: Readonly<Record<BatchIndex['type'], Module>> = {
  native,
  runs,
  otlp_proto: otlpProto,
  otlp_json: otlpJson,
};

/** The module that made the index, by its `type`. */
function moduleOf(index: BatchIndex): FormatModule<BatchIndex> {
  return MODULES[index.type] as FormatModule<BatchIndex>;
}

/** True if a batch still carries items. */
export function hasItems(batch: Batch | ReceivedBatch): boolean {
  return itemsOf(batch) > 0;
}
