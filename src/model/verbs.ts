import type { ReceivedBatch } from './batch.ts';
import type { BatchChanges } from './changes.ts';
import { DROPPED, REJECTED } from './changes.ts';
import { itemId } from './formats.ts';
import { isJsonIndex } from './json/read.ts';
import type { Rejection, RejectionCode } from './rejection.ts';

/**
 * The verbs by which processors change a received batch. Items are named by their position in the request,
 * which is their position in `batch.index`; it stays valid until the batch is sealed.
 *
 *   verb     the client reads         usage          counted by the engine as
 *   reject   the item's code, reason  not counted    rejected{code}
 *   drop     the item is accepted     not counted    dropped{reason}
 *
 * Rejected and dropped items are cut out of the bytes before the batch is durable.
 */

/** A batch as the verbs see it. */
type Draft = { -readonly [Key in keyof ReceivedBatch]: ReceivedBatch[Key] };

/** Whether the item is neither rejected nor dropped. Processors pass over the others. */
export function isOpen({ changes }: ReceivedBatch, item: number): boolean {
  return changes === undefined || changes.marks[item] === 0;
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
 * Leaves an item out: its client reads that it was accepted, and it is never stored. `reason` becomes a
 * metric label, so it is one of a few words of the processor's own, never data.
 */
export function drop(batch: ReceivedBatch, item: number, reason: string): void {
  if (!close(batch, item, DROPPED)) return;
  const changes = changesOf(batch);
  changes.dropped ??= new Map();
  changes.dropped.set(reason, (changes.dropped.get(reason) ?? 0) + 1);
}

/** False if another verb closed the item before. */
function close(batch: ReceivedBatch, item: number, mark: number): boolean {
  if (!(item >= 0 && item < batch.requestItems)) throw new RangeError(`no item ${item}`);
  const { marks } = changesOf(batch);
  if (marks[item] !== 0) return false;
  marks[item] = mark;
  const draft: Draft = batch;
  draft.items--;
  return true;
}

function changesOf(batch: ReceivedBatch): BatchChanges {
  const draft: Draft = batch;
  if (draft.changes === undefined) {
    const rejections: Rejection[] = [];
    draft.changes = { marks: new Uint8Array(batch.requestItems), rejections, dropped: undefined };
    draft.rejections = rejections;
  }
  return draft.changes;
}

/** For the engine, after each processor: the items that it dropped, by reason. */
export function takeDropped({ changes }: ReceivedBatch): ReadonlyMap<string, number> | undefined {
  if (changes?.dropped === undefined) return undefined;
  const { dropped } = changes;
  changes.dropped = undefined;
  return dropped;
}
