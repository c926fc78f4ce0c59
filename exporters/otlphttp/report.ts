import type { Settings } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { DurableQueue } from '../../src/queue/queue.ts';
import type { OtlpHttpConfig } from './config.ts';
import type { OpenSpans } from './open-spans.ts';
import type { Sender } from './sender.ts';

/** A destination that only failed for this long is not having a moment. */
const FAILING_MS = 60_000;

/** Shows the queue and the state of the destination; returns a function that takes both back. */
export function report(
  settings: Settings,
  config: OtlpHttpConfig,
  queue: DurableQueue | undefined,
  sender: Sender,
  openSpans: OpenSpans | undefined,
): () => void {
  const { id, metrics, host } = settings;
  const exporter = { exporter: id };
  const one = (read: () => number) => () => [{ value: read(), labels: exporter }];
  const removers = [
    metrics.gauge(
      'tracectl_otlphttp_held',
      '1 while the destination refuses us and everything waits',
      one(() => (sender.held === undefined ? 0 : 1)),
    ),
    host.service(HEALTH_REGISTRY).register(id, () => healthOf(settings, config, queue, sender)),
  ];
  if (openSpans !== undefined) {
    removers.push(
      metrics.gauge(
        'tracectl_otlphttp_open_spans',
        'Observations that started and wait for their finish',
        one(() => openSpans.size),
      ),
    );
  }
  if (queue !== undefined) removers.push(...queueGauges(settings, queue));
  return () => {
    for (const remove of removers) remove();
  };
}

function queueGauges({ id, metrics }: Settings, queue: DurableQueue): (() => void)[] {
  const exporter = { exporter: id };
  const gauge = (name: string, description: string, read: () => number) =>
    metrics.gauge(name, description, () => [{ value: read(), labels: exporter }]);
  const perBranch = (name: string, description: string, part: 'entries' | 'items') =>
    metrics.gauge(name, description, () =>
      queue.stats().branches.map((branch) => ({
        value: branch[part],
        labels: { ...exporter, branch: branch.branch },
      })),
    );
  return [
    perBranch('tracectl_queue_entries', 'Batches that wait in the queue', 'entries'),
    perBranch('tracectl_queue_items', 'Items that wait in the queue', 'items'),
    gauge(
      'tracectl_queue_bytes',
      'Bytes of bodies that wait in the queue',
      () => queue.stats().bytes,
    ),
    gauge(
      'tracectl_dead_letter_entries',
      'Batches in the dead letter',
      () => queue.stats().deadLetters,
    ),
    gauge(
      'tracectl_dead_letter_items',
      'Items in the dead letter',
      () => queue.stats().deadLetterItems,
    ),
    gauge(
      'tracectl_quarantined_entries',
      'Damaged entries that were set aside',
      () => queue.stats().quarantined,
    ),
  ];
}

function healthOf(
  { clock }: Settings,
  config: OtlpHttpConfig,
  queue: DurableQueue | undefined,
  sender: Sender,
): ComponentHealth {
  const { held } = sender;
  const now = clock.now();
  const failingMs = now - (sender.failingSince ?? now);
  const state =
    held !== undefined
      ? { healthy: false, message: `The destination refuses us: ${held.message}` }
      : failingMs > FAILING_MS
        ? { healthy: false, message: 'Nothing is delivered: the destination fails or is away.' }
        : {};
  if (queue === undefined) {
    return { ...state, details: { durability: "the destination's own" } };
  }
  const { branches, bytes, deadLetters, quarantined } = queue.stats();
  const entries = branches.reduce((sum, branch) => sum + branch.entries, 0);
  const items = branches.reduce((sum, branch) => sum + branch.items, 0);
  const oldest = branches.flatMap(({ oldestAt }) => (oldestAt === undefined ? [] : [oldestAt]));
  const age = oldest.length === 0 ? 0 : Math.max(0, now - Math.min(...oldest));
  const { sizer, queue_size } = config.sending_queue;
  const isFull = { requests: entries, items, bytes }[sizer] >= queue_size;
  return {
    ready: !isFull,
    ...(isFull ? { message: 'The queue is full.' } : {}),
    ...state,
    details: {
      durability: 'synced to disk before the answer',
      queued_entries: entries,
      queued_items: items,
      oldest_age_ms: oldest.length === 0 ? null : age,
      bytes,
      dead_letters: deadLetters,
      quarantined,
    },
  };
}
