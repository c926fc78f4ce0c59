import type { Clock, GaugeReader, Labels, Metrics } from '../component/component.ts';
import type { DurableQueue, QueueAdmin, QueueSummary } from './queue.ts';

/** Seconds that the oldest entry of the branches has waited; null if they are empty. */
export function oldestAgeSeconds(
  branches: readonly Pick<QueueSummary['branches'][number], 'oldestAt'>[],
  now: number,
): number | null {
  const times = branches.flatMap(({ oldestAt }) => oldestAt ?? []);
  return times.length === 0 ? null : Math.max(0, now - Math.min(...times)) / 1000;
}

/** Seconds that the oldest entry has waited for its first delivery; null without one. */
export function backlogAgeSeconds(queue: DurableQueue, now: number): number | null {
  const since = queue.untriedSince?.();
  return since === undefined ? null : Math.max(0, now - since) / 1000;
}

/** Returns a function that removes the gauge. */
export function oldestAgeGauge(metrics: Metrics, read: GaugeReader): () => void {
  return metrics.gauge(
    'tracectl_queue_oldest_age_seconds',
    'Seconds that the oldest batch of the queue has waited, or 0',
    read,
  );
}

/** The metrics of a durable queue; returns a function that removes the gauges. */
export function queueGauges(
  metrics: Metrics,
  clock: Clock,
  component: Labels,
  queue: DurableQueue,
): () => void {
  const one = (value: number) => [{ value, labels: component }];
  const removers = [
    summaryGauges(metrics, clock, component, queue),
    metrics.gauge('tracectl_queue_items', 'Items that wait in the queue', () =>
      queue.stats().branches.map(({ branch, items }) => ({
        value: items,
        labels: { ...component, branch },
      })),
    ),
    metrics.gauge(
      'tracectl_queue_backlog_age_seconds',
      'Seconds that the oldest batch has waited for its first delivery, or 0; max_backlog_age bounds it',
      () => one(backlogAgeSeconds(queue, clock.now()) ?? 0),
    ),
    metrics.gauge('tracectl_queue_bytes', 'Bytes of bodies that wait in the queue', () =>
      one(queue.stats().bytes),
    ),
    metrics.gauge('tracectl_queue_capacity_bytes', 'Bytes that may wait in the queue', () =>
      one(queue.stats().maxBytes),
    ),
    metrics.gauge('tracectl_quarantined_entries', 'Damaged entries that were set aside', () =>
      one(queue.stats().quarantined),
    ),
  ];
  return () => {
    for (const remove of removers) remove();
  };
}

/** The metrics that every queue has; returns a function that removes the gauges. */
export function summaryGauges(
  metrics: Metrics,
  clock: Clock,
  component: Labels,
  queue: QueueAdmin,
): () => void {
  const one = (value: number) => [{ value, labels: component }];
  const dropped = metrics.counter(
    'tracectl_queue_dropped_items_total',
    'Items that left the queue without being delivered, by reason: project_deleted, retention',
  );
  const removers = [
    metrics.gauge('tracectl_queue_entries', 'Batches that wait in the queue', () =>
      queue.stats().branches.map(({ branch, entries }) => ({
        value: entries,
        labels: { ...component, branch },
      })),
    ),
    oldestAgeGauge(metrics, () =>
      queue.stats().branches.map((stats) => ({
        value: oldestAgeSeconds([stats], clock.now()) ?? 0,
        labels: { ...component, branch: stats.branch },
      })),
    ),
    metrics.gauge('tracectl_dead_letter_entries', 'Batches in the dead letter', () =>
      one(queue.stats().deadLetters),
    ),
    metrics.gauge('tracectl_dead_letter_items', 'Items in the dead letter', () =>
      one(queue.stats().deadLetterItems),
    ),
    queue.onDrop(({ branch, items, reason, wasDead }) => {
      dropped.add(items, { ...component, branch, reason, from: wasDead ? 'dead_letter' : 'queue' });
    }),
  ];
  return () => {
    for (const remove of removers) remove();
  };
}
