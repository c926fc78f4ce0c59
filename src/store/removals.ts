import type { Metrics } from '../component/component.ts';
import type { DropReason } from '../queue/queue.ts';

/** Reports what left a store. */
export type OnRemoved = (removed: {
  readonly traces?: number;
  readonly observations?: number;
  readonly batches?: number;
  readonly bytes?: number;
}) => void;

/** The counters of what left a store, for each reason. */
export type RemovalCounters = (reason: DropReason) => OnRemoved;

export function removalCounters(metrics: Metrics): RemovalCounters {
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
  return (reason) => (removed) => {
    for (const name of ['traces', 'observations', 'batches', 'bytes'] as const) {
      const count = removed[name] ?? 0;
      if (count > 0) counters[name].add(count, { reason });
    }
  };
}
