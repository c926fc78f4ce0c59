import type { Metrics } from '../component/component.ts';
import type { DropReason } from '../queue/queue.ts';

/** Reports what left a store. */
export type OnRemoved = (removed: {
  readonly traces?: number;
  readonly observations?: number;
  readonly batches?: number;
  readonly bytes?: number;
}) => void;

const DESCRIPTIONS = {
  traces: 'Traces that were removed, by reason: retention, project_deleted, erasure.',
  observations: 'Observations that were removed with their traces, by reason.',
  batches: 'Raw batches that were removed, by reason.',
  bytes: 'Bytes of bodies that were removed, by reason.',
} as const;

/** The counters of what left a store, for each reason. */
export type RemovalCounters = (reason: DropReason) => OnRemoved;

export function removalCounters(metrics: Metrics): RemovalCounters {
  const names = Object.keys(DESCRIPTIONS) as (keyof typeof DESCRIPTIONS)[];
  const counters = names.map((name) => {
    const counter = metrics.counter(`tracectl_store_removed_${name}_total`, DESCRIPTIONS[name]);
    return [name, counter] as const;
  });
  return (reason) => (removed) => {
    for (const [name, counter] of counters) {
      const count = removed[name] ?? 0;
      if (count > 0) counter.add(count, { reason });
    }
  };
}
