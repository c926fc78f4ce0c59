import type { ReceivedBatch, SealedBatch } from './batch.ts';
import { cut, keepIndex, measure } from './formats.ts';
import type { Rejection } from './rejection.ts';
import type { RequestContext } from './request-context.ts';
import { isOpen } from './verbs.ts';

/**
 * Ends the request's ownership of a batch: usage is measured, unless a processor reserved it, rejected and
 * dropped items leave the bytes, and the answer of a request with an `Idempotency-Key` is rendered. The bytes
 * of an untouched batch stay as received, compression included.
 */
export function seal(batch: ReceivedBatch, request: RequestContext): SealedBatch {
  const { id, format, tenant, receivedAt, requestItems, items, index } = batch;
  const positions = items === requestItems ? undefined : openItems(batch);
  const sealed: SealedBatch = {
    kind: 'raw',
    id,
    format,
    tenant,
    receivedAt,
    requestItems,
    body: positions === undefined ? batch.body : cut(index, positions),
    encoding: positions === undefined ? batch.encoding : 'identity',
    items,
    positions,
    rejections: inOrder(batch.rejections),
    usage: request.reserved ?? measure(batch),
  };
  if (positions === undefined) keepIndex(sealed, index);
  const { claim } = request;
  if (claim !== undefined) {
    const { key, requestHash, keptFor, isUnclaimed } = claim;
    request.answer = { ...claim.render(sealed), key, requestHash, keptFor, isUnclaimed };
  }
  return sealed;
}

function openItems(batch: ReceivedBatch): number[] {
  const open: number[] = [];
  for (let item = 0; item < batch.requestItems; item++) if (isOpen(batch, item)) open.push(item);
  return open;
}

/** Several processors reject, each in its own order. */
function inOrder(rejections: readonly Rejection[]): readonly Rejection[] {
  return rejections.length === 0 ? rejections : rejections.toSorted((a, b) => a.index - b.index);
}
