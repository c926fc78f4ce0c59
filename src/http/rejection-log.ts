import type { RequestHead } from '../component/component.ts';
import type { SealedBatch, Tenant } from '../model/batch.ts';
import type { Refusal } from '../model/errors.ts';
import type { Rejection } from '../model/rejection.ts';
import type { RejectionStore } from '../tenancy/contract.ts';

/**
 * Notes what was refused and why, for the owner of the key: reasons and paths, no payload, no credential.
 * Called after the answer is on its way.
 */
export type RejectionLog = {
  /** A request that was refused as a whole; one of nobody known is left out. */
  refused(head: RequestHead, tenant: Tenant | undefined, refusal: Refusal): void;
  /** The items that a batch was accepted without. */
  rejected(head: RequestHead, batch: SealedBatch): void;
};

/** More rejections than this of one request are noted in groups of the same code and reason. */
const MAX_SINGLE = 10;
/** Characters of what a client chose that are kept, so that the log stays small. */
const MAX_TEXT = 200;

export function rejectionLog(store: RejectionStore): RejectionLog {
  return {
    refused(head, tenant, { code, message }) {
      // What came without a valid key belongs to no project.
      if (tenant === undefined || code === 'unauthorized') return;
      store.record({ ...common(head, tenant), code, reason: message, itemId: null, count: 1 });
    },
    rejected(head, batch) {
      if (batch.rejections.length === 0) return;
      const entry = common(head, batch.tenant);
      for (const { first, reason, count } of grouped(batch.rejections)) {
        const itemId = first.id === undefined ? null : first.id.slice(0, MAX_TEXT);
        store.record({ ...entry, code: first.code, reason, itemId, count });
      }
    },
  };
}

function common(head: RequestHead, { projectId, keyId }: Tenant) {
  return { at: head.receivedAt, projectId, keyId, path: head.path.slice(0, MAX_TEXT) };
}

type Group = { readonly first: Rejection; readonly reason: string; count: number };

/** A thousand items that lack the same field differ in their position alone. */
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
