import type { CopyKey } from '../rows/copies.ts';
import { keyOfId, nameOfKey } from '../rows/observation-row.ts';
import type { BatchItem } from './items.ts';

/** How often the store looks for batches that hold items of expired traces, beside events of traces that stay. */
export const EXPIRED_MS = 24 * 3_600_000;

/** Whatever the store still has of the items of a batch. */
export type BatchClaims = {
  /** The names of the keys of traces that have events of the batch. */
  readonly traces: ReadonlySet<string>;
  /** The names of the keys of stored runs. */
  readonly runs: ReadonlySet<string>;
  /** The keys of stored runs that items of the batch repeat. */
  readonly copies: ReadonlySet<CopyKey>;
};

/**
 * The items of a batch whose traces retention removed. The batch is in no queue, is no dead letter, and has no update that waits for
 * its run, so that no reader finds an item without a trace or a run. An item that names neither stays. None of a batch that no trace
 * has events of, or that would lose all its items: retention removes it as a whole.
 */
export function expiredItems(items: readonly BatchItem[], claims: BatchClaims): BatchItem[] {
  if (claims.traces.size === 0) return [];
  const expired = items.filter(({ traceId, id, copy }) => {
    if (traceId === null && id === null) return false;
    if (copy !== null && claims.copies.has(copy)) return false;
    if (id !== null && claims.runs.has(nameOfKey(keyOfId(id)))) return false;
    return traceId === null || !claims.traces.has(nameOfKey(keyOfId(traceId)));
  });
  return expired.length < items.length ? expired : [];
}
