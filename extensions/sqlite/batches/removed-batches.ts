import type { RemovedBatch } from '../../../src/sqlite/queue/removal-operations.ts';
import type { OnRemoved } from '../../../src/store/removals.ts';

/** Reports batches that were removed with their bodies. */
export function reportBatches(removed: readonly RemovedBatch[], onRemoved: OnRemoved): void {
  const bytes = removed.reduce((sum, batch) => sum + batch.bytes, 0);
  onRemoved({ batches: removed.length, bytes });
}
