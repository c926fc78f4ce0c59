import type { Labels, Metrics } from '../component/component.ts';
import type { DurableQueue } from './queue.ts';

/** Shows what waits, and counts what is dropped; returns a function that removes the gauges. */
export function queueGauges(metrics: Metrics, component: Labels, queue: DurableQueue): () => void {
  const one = (value: number) => [{ value, labels: component }];
  const perBranch = (
    read: (branch: ReturnType<DurableQueue['stats']>['branches'][number]) => number,
  ) =>
    queue.stats().branches.map((branch) => ({
      value: read(branch),
      labels: { ...component, branch: branch.branch },
    }));
  const removers = [
    metrics.gauge('tracectl_queue_entries', 'Batches that wait in the queue', () =>
      perBranch(({ entries }) => entries),
    ),
    metrics.gauge('tracectl_queue_items', 'Items that wait in the queue', () =>
      perBranch(({ items }) => items),
    ),
    metrics.gauge('tracectl_queue_bytes', 'Bytes of bodies that wait in the queue', () =>
      one(queue.stats().bytes),
    ),
    metrics.gauge('tracectl_queue_capacity_bytes', 'Bytes that may wait in the queue', () =>
      one(queue.stats().maxBytes),
    ),
    metrics.gauge('tracectl_dead_letter_entries', 'Batches in the dead letter', () =>
      one(queue.stats().deadLetters),
    ),
    metrics.gauge('tracectl_dead_letter_items', 'Items in the dead letter', () =>
      one(queue.stats().deadLetterItems),
    ),
    metrics.gauge('tracectl_quarantined_entries', 'Damaged entries that were set aside', () =>
      one(queue.stats().quarantined),
    ),
  ];
  const dropped = metrics.counter(
    'tracectl_queue_dropped_items_total',
    'Items that left the queue without being delivered, by reason: project_deleted, retention',
  );
  removers.push(
    queue.onDrop(({ branch, items, reason, wasDead }) => {
      dropped.add(items, { ...component, branch, reason, from: wasDead ? 'dead_letter' : 'queue' });
    }),
  );
  return () => {
    for (const remove of removers) remove();
  };
}
