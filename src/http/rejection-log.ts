import { findOffer } from '../component/capability.ts';
import type { Pipeline, RequestHead } from '../component/component.ts';
import { NotStartedError } from '../component/deferred.ts';
import type { SealedBatch, Tenant } from '../model/batch.ts';
import type { Refusal } from '../model/errors.ts';
import type { Rejection } from '../model/rejection.ts';
import { STORE } from '../store/store.ts';
import type { RejectionStore } from '../tenancy/contract.ts';

/** More rejections of one request than this are grouped by code and reason. */
const MAX_SINGLE = 10;
/** Characters that are kept of values that a client chose, so that the log stays small. */
const MAX_TEXT = 200;

/**
 * Logs a request that was refused as a whole, for the owner of its key: reason and path, no payload, no
 * credential. A request without a valid key belongs to no project and is not logged. Without a store there is
 * no log.
 */
export function logRefusal(
  pipeline: Pick<Pipeline, 'offers'>,
  head: RequestHead,
  tenant: Tenant | undefined,
  { code, message }: Refusal,
): void {
  if (tenant === undefined || code === 'unauthorized') return;
  const entry = common(head, tenant);
  storeOf(pipeline)?.record({ ...entry, code, reason: message, itemId: null, count: 1 });
}

/** Logs the rejected items of an accepted batch. Called after the answer is sent. */
export function logRejections(
  pipeline: Pick<Pipeline, 'offers'>,
  head: RequestHead,
  { rejections, tenant }: SealedBatch,
): void {
  if (rejections.length === 0) return;
  const store = storeOf(pipeline);
  if (store === undefined) return;
  const entry = common(head, tenant);
  for (const { first, reason, count } of grouped(rejections)) {
    const itemId = first.id === undefined ? null : first.id.slice(0, MAX_TEXT);
    store.record({ ...entry, code: first.code, reason, itemId, count });
  }
}

/** Undefined also while a reload replaces the store: like a store that stops, it takes no entries then. */
function storeOf({ offers }: Pick<Pipeline, 'offers'>): RejectionStore | undefined {
  try {
    return findOffer(offers, STORE)?.rejections;
  } catch (error) {
    if (error instanceof NotStartedError) return undefined;
    throw error;
  }
}

function common(head: RequestHead, { projectId, keyId }: Tenant) {
  const [agent = null] = head.headers.get('user-agent') ?? [];
  const client = agent?.slice(0, MAX_TEXT).toWellFormed() ?? null;
  return { at: head.receivedAt, projectId, keyId, path: head.path.slice(0, MAX_TEXT), client };
}

type Group = { readonly first: Rejection; readonly reason: string; count: number };

/** A thousand items without the same field differ only in their position. */
function grouped(rejections: readonly Rejection[]): Iterable<Group> {
  if (rejections.length <= MAX_SINGLE) {
    return rejections.map((first) => ({ first, reason: first.reason, count: 1 }));
  }
  const groups = new Map<string, Group>();
  for (const first of rejections) {
    const reason = first.reason.replace(/\[\d+\]/g, '[*]');
    const name = `${first.code} ${reason}`;
    const known = groups.get(name);
    if (known === undefined) groups.set(name, { first, reason, count: 1 });
    else known.count++;
  }
  return groups.values();
}
