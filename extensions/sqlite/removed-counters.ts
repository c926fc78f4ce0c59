import type { Metrics } from '../../src/component/component.ts';
import type { DropReason } from '../../src/queue/queue.ts';
import type { RemovedBatch } from '../../src/sqlite/queue/removal-operations.ts';

type Removed = 'traces' | 'observations' | 'batches' | 'bytes';

/** Counts what left the store, by reason. */
export type RemovedCounters = {
  add(what: Removed, count: number, reason: DropReason): void;
  addBatches(removed: readonly RemovedBatch[], reason: DropReason): void;
};

export function removedCounters(metrics: Metrics): RemovedCounters {
  const counters = {
    traces: metrics.counter(
      'tracectl_store_removed_traces_total',
      'Traces that were removed, by reason: retention, project_deleted, erasure.',
    ),
    observations: metrics.counter(
      'tracectl_store_removed_observations_total',
      'Observations that were removed with their traces, by reason.',
    ),
    batches: metrics.counter(
      'tracectl_store_removed_batches_total',
      'Raw batches that were removed, by reason.',
    ),
    bytes: metrics.counter(
      'tracectl_store_removed_bytes_total',
      'Bytes of bodies that were removed, by reason.',
    ),
  };
  const add: RemovedCounters['add'] = (what, count, reason) => {
    if (count > 0) counters[what].add(count, { reason });
  };
  return {
    add,
    addBatches(removed, reason) {
      add('batches', removed.length, reason);
      const bytes = removed.reduce((sum, batch) => sum + batch.bytes, 0);
      add('bytes', bytes, reason);
    },
  };
}
