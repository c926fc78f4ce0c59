import type { Encoding, ReceivedBatch } from './batch.ts';
import type { BatchIndex } from './batch-index.ts';
import type { BatchChanges } from './changes.ts';
import { DROPPED, EDITED, REJECTED } from './changes.ts';
import { itemId, spliced } from './formats.ts';
import { BACKSLASH } from './json/grammar.ts';
import { isJsonIndex } from './json/read.ts';
import type { Rejection, RejectionCode } from './rejection.ts';
import {
  maskScalar,
  type ScalarPlace,
  type Splice,
  type TextRange,
  wholeCharacters,
} from './texts.ts';

/**
 * The verbs by which processors change a received batch. Items are named by their position in the request,
 * which is their position in `batch.index`; it stays valid until the batch is sealed.
 *
 *   verb      the client reads         usage                      counted by the engine as
 *   reject    the item's code, reason  not counted                rejected{code}
 *   drop      the item is accepted     not counted                dropped{reason}
 *   mask      the item is accepted     measured after the edit    edited
 *   replace   the item is accepted     measured after the edit    edited
 *   compress  nothing of it            as without it              nothing: it is about the whole body
 *
 * Rejected and dropped items are cut out of the bytes, and edits are applied, before the batch is durable. A body
 * that is edited or cut is stored uncompressed, unless it is compressed after that.
 */

/** The item of bytes that several items share: resource, scope, envelope. Their edit edits every open item. */
export const SHARED = -1;

/** Bytes at [start, end) of `batch.index.bytes`; `item` is the item that they belong to. */
export type EditedRange = { readonly item: number; readonly start: number; readonly end: number };

/** A range that `mask` overwrites. */
export type MaskedRange = EditedRange & {
  /** The text around the range, which is widened to whole characters and escapes of that text. */
  readonly text?: TextRange;
  /** Given for a number or byte sequence (`TextVisitor.scalar`), which becomes zeros or null. */
  readonly form?: ScalarPlace['form'];
};

/** A range and what takes its place, spelled for its place (`encodeText` of the format). */
export type Replacement = EditedRange & Splice;

/** A batch as the verbs see it. */
type Draft = { -readonly [Key in keyof ReceivedBatch]: ReceivedBatch[Key] };

/** Whether the item is neither rejected nor dropped. Processors pass over the others. */
export function isOpen({ changes }: ReceivedBatch, item: number): boolean {
  return changes === undefined || isOpenMark(changes.marks[item]);
}

/** Whether an item with these marks is neither rejected nor dropped. */
function isOpenMark(mark = 0): boolean {
  return (mark & (REJECTED | DROPPED)) === 0;
}

/**
 * Refuses an item. The client reads the path, if there is one, and the reason, which never echoes a value:
 * `events[3].name must be a string`. The first rejection of an item stays.
 */
export function reject(
  batch: ReceivedBatch,
  item: number,
  code: RejectionCode,
  reason: string,
  path?: string,
): void {
  if (!close(batch, item, REJECTED)) return;
  const { index } = batch;
  // OTLP answers name no items, so their ids are not spelled out.
  const id = isJsonIndex(index) ? itemId(index, item) : undefined;
  const rejection: Rejection = {
    index: item,
    ...(id === undefined ? {} : { id }),
    code,
    reason: path === undefined ? reason : `${path} ${reason}`,
  };
  changesOf(batch).rejections.push(rejection);
}

/**
 * Leaves an item out: its client reads that it was accepted, and it is never stored. `reason` becomes a metric
 * label, so it is one of a few words of the processor's own, never data.
 */
export function drop(batch: ReceivedBatch, item: number, reason: string): void {
  if (!close(batch, item, DROPPED)) return;
  const changes = changesOf(batch);
  changes.dropped ??= new Map();
  changes.dropped.set(reason, (changes.dropped.get(reason) ?? 0) + 1);
}

/**
 * Overwrites bytes with asterisks, at once and in place, so that no byte moves. A range without `text` holds whole
 * characters and escapes.
 */
export function mask(batch: ReceivedBatch, ranges: readonly MaskedRange[]): void {
  if (ranges.length === 0) return;
  const { bytes, type } = batch.index;
  const changes = changesOf(batch);
  const isJson = type !== 'otlp_proto';
  noteEdits(batch, changes, ranges);
  for (const range of ranges) {
    const { text, form } = range;
    if (form !== undefined) {
      // Compact JSON has no white space, which fills up a shorter number.
      changes.isIndexStale ||= isJson;
      maskScalar(bytes, { start: range.start, end: range.end, form });
      continue;
    }
    const { start, end } =
      text === undefined ? range : wholeCharacters(bytes, text, range.start, range.end);
    // Compact JSON spells some escapes shorter than they were sent, but asterisks as they are.
    changes.isIndexStale ||= isJson && bytes.subarray(start, end).includes(BACKSLASH);
    bytes.fill(ASTERISK, start, end);
  }
  // Readers keep by index what they read of the former bytes, such as the user that a resource names.
  const draft: Draft = batch;
  draft.index = { ...batch.index };
  keepBytes(batch, bytes);
}

/**
 * Replaces bytes by others. It takes effect when the processor has finished with the batch: until then the bytes
 * and the index stay as they are. Ranges of one processor do not overlap; their order is of no account.
 */
export function replace(batch: ReceivedBatch, replacements: readonly Replacement[]): void {
  if (replacements.length === 0) return;
  const changes = changesOf(batch);
  noteEdits(batch, changes, replacements);
  for (const replacement of replacements) changes.splices.push(replacement);
}

/** Keeps the body in another encoding. An edit or a closed item behind this makes the batch of the inflated bytes again. */
export function compress(batch: ReceivedBatch, compressed: Buffer, encoding: Encoding): void {
  keepBytes(batch, compressed, encoding);
}

/** False if another verb closed the item before. */
function close(batch: ReceivedBatch, item: number, mark: number): boolean {
  checkItem(batch, item);
  const { marks } = changesOf(batch);
  const before = marks[item] ?? 0;
  if (!isOpenMark(before)) return false;
  marks[item] = before | mark;
  const draft: Draft = batch;
  draft.items--;
  return true;
}

/** Marks the items of the ranges as edited. A shared range marks every item, once for all shared ranges. */
function noteEdits(
  batch: ReceivedBatch,
  changes: BatchChanges,
  ranges: readonly EditedRange[],
): void {
  let hasShared = false;
  for (const { item, start, end } of ranges) {
    checkRange(batch, start, end);
    if (item === SHARED) {
      hasShared = true;
    } else {
      checkItem(batch, item);
      markEdited(changes, item);
    }
  }
  if (!hasShared) return;
  for (let each = 0; each < batch.requestItems; each++) markEdited(changes, each);
}

function markEdited(changes: BatchChanges, item: number): void {
  const before = changes.marks[item] ?? 0;
  if (before !== 0) return;
  changes.marks[item] = EDITED;
  changes.edited++;
}

function checkItem({ requestItems }: ReceivedBatch, item: number): void {
  if (!(Number.isInteger(item) && item >= 0 && item < requestItems)) {
    throw new RangeError(`the batch has no item ${item}`);
  }
}

function checkRange({ index }: ReceivedBatch, start: number, end: number): void {
  if (start >= 0 && start <= end && end <= index.bytes.length) return;
  throw new RangeError(`the batch has no bytes ${start} to ${end}`);
}

function keepBytes(batch: ReceivedBatch, bytes: Buffer, encoding: Encoding = 'identity'): void {
  const draft: Draft = batch;
  draft.body = bytes;
  draft.encoding = encoding;
}

function changesOf(batch: ReceivedBatch): BatchChanges {
  const draft: Draft = batch;
  if (draft.changes === undefined) {
    const rejections: Rejection[] = [];
    draft.rejections = rejections;
    draft.changes = {
      marks: new Uint8Array(batch.requestItems),
      rejections,
      dropped: undefined,
      edited: 0,
      splices: [],
      isIndexStale: false,
    };
  }
  return draft.changes;
}

const ASTERISK = 0x2a;

/** For the engine, after each processor: the items that it dropped, by reason. */
export function takeDropped({ changes }: ReceivedBatch): ReadonlyMap<string, number> | undefined {
  if (changes?.dropped === undefined) return undefined;
  const { dropped } = changes;
  changes.dropped = undefined;
  return dropped;
}

/** For the engine, after each processor: the number of items that it edited. */
export function takeEdited({ changes }: ReceivedBatch): number {
  if (changes === undefined || changes.edited === 0) return 0;
  const { edited, marks } = changes;
  changes.edited = 0;
  for (let item = 0; item < marks.length; item++) marks[item] = (marks[item] ?? 0) & ~EDITED;
  return edited;
}

/** For the engine, after each processor: the edited bytes, to be scanned and adopted; undefined if the index is valid. */
export function takeEditedBytes({ index, changes }: ReceivedBatch): Buffer | undefined {
  if (changes === undefined) return undefined;
  const { splices, isIndexStale } = changes;
  if (splices.length === 0) return isIndexStale ? index.bytes : undefined;
  changes.splices = [];
  return spliced(
    index,
    splices.sort((a, b) => a.start - b.start),
  );
}

/** Goes on with edited bytes and their index. */
export function adopt(batch: ReceivedBatch, index: BatchIndex): void {
  if (index.count !== batch.requestItems) {
    throw new Error(`an edit left ${index.count} of ${batch.requestItems} items`);
  }
  const draft: Draft = batch;
  draft.index = index;
  changesOf(batch).isIndexStale = false;
  keepBytes(batch, index.bytes);
}
